#include "sluice/cli/study/gradient_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sluice/study/histogram.h"
#include "sluice/study/laws.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<Json>;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kDrawnLayers = 3;

struct Mean {
  double sum = 0;
  std::size_t count = 0;
  void add(double v) {
    if (!std::isfinite(v)) return;
    sum += v;
    ++count;
  }
  Json json() const {
    return count == 0 ? Json() : Json(sum / static_cast<double>(count));
  }
  double value() const {
    return count == 0 ? kNone : sum / static_cast<double>(count);
  }
};

double number(const Json& value) {
  return value.is_number() ? value.get<double>() : kNone;
}

double ks_of(const Json& row, std::string_view law) {
  const Json& entry = row.at("laws").at(std::string(law));
  return entry.is_object() ? number(entry.at("ks")) : kNone;
}

std::string text(const Json& row, const char* key) {
  return row.at(key).get<std::string>();
}

// The mean over rows of one layer and one kind of values.
struct LayerLaws {
  std::uint64_t n = 0;
  Mean zeros;
  Mean small;
  Mean tail;
  std::map<std::string, Mean> ks;
  std::map<std::string, std::size_t> best;

  void add(const Json& row) {
    n = row.at("n").get<std::uint64_t>();
    zeros.add(number(row.at("zeros")));
    small.add(number(row.at("below_1e3")));
    tail.add(number(row.at("tail_index")));
    for (const Law::Kind kind : kLawKinds) {
      ks[std::string(name_of(kind))].add(ks_of(row, name_of(kind)));
    }
    if (row.at("best").is_string()) ++best[text(row, "best")];
  }
  Json nearest() const {
    if (best.empty()) return {};
    return std::max_element(
               best.begin(), best.end(),
               [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }
};

StudyTable law_table(const Rows& rows) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, LayerLaws> layers;
  for (const Json& row : rows) {
    const auto key = std::pair(text(row, "layer"), text(row, "what"));
    if (!layers.contains(key)) order.push_back(key);
    layers[key].add(row);
  }
  StudyTable table;
  table.title = "laws of the magnitudes, means over steps";
  table.legend =
      "zeros, < max/1000: shares of entries; tail: Hill's index (the smaller, "
      "the heavier); nearest:\nthe law with the smallest KS distance in most "
      "steps; the others: KS distance of each law";
  table.columns = {{"layer", "layer", ""},
                   {"what", "of", ""},
                   {"n", "n", "{}"},
                   {"zeros", "zeros %", "{:.2f}", 100},
                   {"below_1e3", "< max/1000 %", "{:.2f}", 100},
                   {"tail_index", "tail", "{:.2f}"},
                   {"nearest", "nearest", ""},
                   {"normal", "normal", "{:.3f}"},
                   {"laplace", "laplace", "{:.3f}"},
                   {"double-exponential", "dbl-exp", "{:.3f}"},
                   {"gamma", "gamma", "{:.3f}"},
                   {"pareto", "pareto", "{:.3f}"}};
  for (const auto& key : order) {
    const LayerLaws& l = layers[key];
    Json row = {{"layer", key.first},
                {"what", key.second},
                {"n", l.n},
                {"zeros", l.zeros.json()},
                {"below_1e3", l.small.json()},
                {"tail_index", l.tail.json()},
                {"nearest", l.nearest()}};
    for (const auto& [law, ks] : l.ks) row[law] = ks.json();
    table.rows.push_back(std::move(row));
  }
  return table;
}

// k_hat / k of a rule at a density, over layers and steps.
struct RuleNumbers {
  Mean all;
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  std::map<std::uint64_t, Mean> by_step;

  void add(std::uint64_t step, double ratio) {
    all.add(ratio);
    low = std::min(low, ratio);
    high = std::max(high, ratio);
    by_step[step].add(ratio);
  }
};
using Rules = std::map<std::pair<double, std::string>, RuleNumbers>;

Rules rules_of(const Rows& rows) {
  Rules rules;
  for (const Json& row : rows) {
    if (!row.contains("rules")) continue;
    for (const Json& r : row.at("rules")) {
      const auto key =
          std::pair(r.at("density").get<double>(), text(r, "rule"));
      rules[key].add(row.at("step").get<std::uint64_t>(),
                     r.at("k_hat").get<double>() / r.at("k").get<double>());
    }
  }
  return rules;
}

StudyTable rule_table(const Rules& rules) {
  StudyTable table;
  table.title = "k^/k of rules, over layers and steps";
  table.legend =
      "k^/k: entries that a rule selects over those asked for; first, last: "
      "mean over layers in the\nfirst and the last step that was looked at";
  table.columns = {
      {"rule", "rule", ""},          {"density", "density", "{:g}"},
      {"mean", "mean", "{:.3f}"},    {"low", "lowest", "{:.3f}"},
      {"high", "highest", "{:.3f}"}, {"first", "first", "{:.3f}"},
      {"last", "last", "{:.3f}"}};
  for (const auto& [key, r] : rules) {
    table.rows.push_back({{"rule", key.second},
                          {"density", key.first},
                          {"mean", r.all.json()},
                          {"low", r.low},
                          {"high", r.high},
                          {"first", r.by_step.begin()->second.json()},
                          {"last", r.by_step.rbegin()->second.json()}});
  }
  return table;
}

void add_rule_series(const Rules& rules, SeriesSet& series) {
  for (const auto& [key, r] : rules) {
    const Series like = {
        key.second, fmt::format("k^/k: density {:g}", key.first),
        "step",     "k^/k, mean over layers (log)",
        {},         {}};
    for (const auto& [step, mean] : r.by_step) {
      series.add(like, static_cast<double>(step), mean.value());
    }
  }
}

void add_ks_series(const Rows& rows, SeriesSet& series) {
  std::map<std::string, std::map<std::string, std::map<std::uint64_t, Mean>>>
      ks;
  for (const Json& row : rows) {
    for (const Law::Kind kind : kLawKinds) {
      const std::string law(name_of(kind));
      ks[text(row, "what")][law][row.at("step").get<std::uint64_t>()].add(
          ks_of(row, law));
    }
  }
  for (const auto& [what, laws] : ks) {
    for (const Law::Kind kind : kLawKinds) {
      const Series like = {std::string(name_of(kind)),
                           "KS distance: " + what,
                           "step",
                           "KS distance, mean over layers",
                           {},
                           {}};
      for (const auto& [step, mean] : laws.at(like.name)) {
        series.add(like, static_cast<double>(step), mean.value());
      }
    }
  }
}

// Density of a / mean(a), so that layers of any scale share a chart.
void add_magnitudes(const Json& row, SeriesSet& series) {
  const Json& base = row.at("laws").at("double-exponential");
  const Json& counts = row.at("magnitudes").at("counts");
  if (!base.is_object() || counts.empty()) return;
  const double mean = base.at("scale").get<double>();
  MagnitudeHistogram bins;
  bins.low = row.at("magnitudes").at("low").get<double>();
  double total = row.at("magnitudes").at("below").get<double>();
  for (const Json& c : counts) total += c.get<double>();
  const std::string panel =
      fmt::format("magnitudes: {} {}, step {}", text(row, "layer"),
                  text(row, "what"), row.at("step").get<std::uint64_t>());
  const auto like = [&](const std::string& name) {
    return Series{name, panel, "|x| / mean |x| (log)", "density (log)", {}, {}};
  };
  for (int b = 0; b < MagnitudeHistogram::kBins; ++b) {
    const double count = counts[static_cast<std::size_t>(b)].get<double>();
    const double middle = std::sqrt(bins.edge(b) * bins.edge(b + 1));
    if (middle < 1e-2 * mean) continue;
    const double width = bins.edge(b + 1) - bins.edge(b);
    const double density = count / total / width * mean;
    series.add(like("measured"), middle / mean, count > 0 ? density : kNone);
    for (const Law::Kind kind : kLawKinds) {
      const Json& e = row.at("laws").at(std::string(name_of(kind)));
      if (!e.is_object()) continue;
      const Law law = {kind, e.at("location").get<double>(),
                       e.at("scale").get<double>(),
                       e.at("shape").get<double>()};
      const double fitted = law.density(middle) * mean;
      series.add(like(std::string(name_of(kind))), middle / mean,
                 fitted > 1e-8 ? fitted : kNone);
    }
  }
}

// Of the largest layers, at the last step.
void add_histograms(const Rows& rows, SeriesSet& series) {
  std::map<std::string, const Json*> last;  // by layer
  for (const Json& row : rows) last[text(row, "layer")] = &row;
  std::vector<const Json*> drawn;
  for (const auto& [layer, row] : last) drawn.push_back(row);
  std::stable_sort(drawn.begin(), drawn.end(), [](auto* a, auto* b) {
    return a->at("n").template get<std::uint64_t>() >
           b->at("n").template get<std::uint64_t>();
  });
  drawn.resize(std::min(drawn.size(), kDrawnLayers));
  for (const Json* row : drawn) add_magnitudes(*row, series);
}

std::string laws_csv(const Rows& rows) {
  Rows flat;
  for (const Json& row : rows) {
    Json out;
    for (const char* key :
         {"step", "layer", "what", "n", "nonfinite", "zeros", "below_1e3",
          "largest", "norm", "tail_index", "best"}) {
      out[key] = row.at(key);
    }
    for (const auto& [law, fit] : row.at("laws").items()) {
      for (const char* key : {"location", "scale", "shape", "ks"}) {
        out[law + "_" + key] = fit.is_object() ? fit.at(key) : Json();
      }
    }
    flat.push_back(std::move(out));
  }
  return print_csv(flat);
}

std::string rules_csv(const Rows& rows) {
  Rows flat;
  for (const Json& row : rows) {
    if (!row.contains("rules")) continue;
    for (const Json& r : row.at("rules")) {
      Json out = {{"step", row.at("step")},
                  {"layer", row.at("layer")},
                  {"what", row.at("what")}};
      out.update(r);
      flat.push_back(std::move(out));
    }
  }
  return print_csv(flat);
}

// A line per bin: of magnitudes its lower edge, of values its middle.
std::string histograms_csv(const Rows& rows) {
  Rows flat;
  for (const Json& row : rows) {
    const auto add = [&](const char* kind, double at, const Json& count) {
      flat.push_back({{"step", row.at("step")},
                      {"layer", row.at("layer")},
                      {"what", row.at("what")},
                      {"histogram", kind},
                      {"at", at},
                      {"count", count}});
    };
    MagnitudeHistogram bins;
    bins.low = row.at("magnitudes").at("low").get<double>();
    const Json& magnitudes = row.at("magnitudes").at("counts");
    for (std::size_t b = 0; b < magnitudes.size(); ++b) {
      add("magnitudes", bins.edge(static_cast<int>(b)), magnitudes[b]);
    }
    const double reach = row.at("values").at("reach").get<double>();
    const Json& values = row.at("values").at("counts");
    for (std::size_t b = 0; b < values.size(); ++b) {
      const double place =
          (static_cast<double>(b) + 0.5) / SignedHistogram::kBins;
      add("values", reach * (2 * place - 1), values[b]);
    }
  }
  return print_csv(flat);
}

}  // namespace

GradientReport report_gradients(const Rows& rows, const std::string& title,
                                const std::string& subtitle) {
  const Rules rules = rules_of(rows);
  SeriesSet series;
  add_ks_series(rows, series);
  add_rule_series(rules, series);
  add_histograms(rows, series);
  GradientReport out;
  out.study.kind = "gradients";
  out.study.title = title;
  out.study.subtitle = subtitle;
  out.study.series = series.all();
  out.study.tables.push_back(law_table(rows));
  if (!rules.empty()) out.study.tables.push_back(rule_table(rules));
  out.files = {
      {"laws.csv", laws_csv(rows)},
      {"rules.csv", rules_csv(rows)},
      {"histograms.csv", histograms_csv(rows)},
      {"laws.svg", draw_series(out.study, "KS distance",
                               "distance of laws from the magnitudes")},
      {"rules.svg",
       draw_series(out.study, "k^/k", "entries selected over asked for")},
      {"magnitudes.svg",
       draw_series(out.study, "magnitudes", "magnitudes and laws")}};
  return out;
}

}  // namespace sluice
