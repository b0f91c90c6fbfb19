#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"
#include "sluice/cli/study/studied_runs.h"
#include "sluice/cli/study/study_file.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Options {
  StudiedJob job;
  std::vector<std::string> methods = {"topk,adtopk"};
  double density = 0.01;
};

double number(const Json& row, const char* key) {
  const Json& value = row.at(key);
  return value.is_number() ? value.get<double>() : kNone;
}

// Rows of some layers and steps, added up.
class Evidences {
 public:
  void add(const Json& row) {
    for (const char* key :
         {"xi", "relative_error", "contraction", "bound", "bell", "bound_k",
          "age_mean", "age_p50", "age_p90", "age_p99"}) {
      const double v = number(row, key);
      if (!std::isfinite(v)) continue;
      sums_[key] += v;
      ++counts_[key];
    }
    most_xi_ =
        std::max(most_xi_, std::isfinite(number(row, "xi")) ? number(row, "xi")
                                                            : most_xi_);
    for (const char* key : {"n1", "n2", "k", "k_hat"}) {
      sums_[key] += number(row, key);
    }
    for (const char* key : {"residual", "gradient"}) {
      sums_[key] += number(row, key) * number(row, key);
    }
  }

  double mean(const std::string& key) const {
    const auto at = counts_.find(key);
    return at == counts_.end()
               ? kNone
               : sums_.at(key) / static_cast<double>(at->second);
  }
  // The ratio of means over steps, as the papers have it.
  double delta() const { return ratio("n1", "n2"); }
  double k_ratio() const { return ratio("k_hat", "k"); }
  // Of norms over all layers.
  double residual() const { return std::sqrt(ratio("residual", "gradient")); }
  double most_xi() const { return most_xi_; }

  Json row() const {
    Json out = {{"k_hat_over_k", k_ratio()},
                {"xi", mean("xi")},
                {"xi_max", most_xi()},
                {"relative_error", mean("relative_error")},
                {"delta", delta()}};
    for (const char* key : {"contraction", "bound", "bell", "bound_k"}) {
      out[key] = mean(key);
    }
    out["residual_over_gradient"] = residual();
    return out;
  }

 private:
  double ratio(const std::string& a, const std::string& b) const {
    const auto below = sums_.find(b);
    return below == sums_.end() || !(below->second > 0)
               ? kNone
               : sums_.at(a) / below->second;
  }

  std::map<std::string, double> sums_;
  std::map<std::string, std::size_t> counts_;
  double most_xi_ = 0;
};

using BySteps = std::map<std::uint64_t, Evidences>;

BySteps by_step(const std::vector<Json>& rows) {
  BySteps out;
  for (const Json& row : rows) {
    out[row.at("step").get<std::uint64_t>()].add(row);
  }
  return out;
}

std::vector<std::pair<std::string, Evidences>> by_layer(
    const std::vector<Json>& rows) {
  std::vector<std::pair<std::string, Evidences>> out;
  for (const Json& row : rows) {
    const auto name = row.at("layer").get<std::string>();
    auto at = std::find_if(out.begin(), out.end(),
                           [&](const auto& l) { return l.first == name; });
    if (at == out.end()) at = out.insert(out.end(), {name, {}});
    at->second.add(row);
  }
  return out;
}

// Ages only grow, so that they are told of the last step.
void add_ages(const Evidences& last, Json& row) {
  for (const char* key : {"age_mean", "age_p50", "age_p90", "age_p99"}) {
    row[key] = last.mean(key);
  }
}

// What stands in both tables.
std::vector<Column> columns_after(std::vector<Column> first) {
  const std::vector<Column> rest = {{"k_hat_over_k", "k^/k", "{:.3f}"},
                                    {"xi", "xi", "{:.3f}"},
                                    {"xi_max", "most xi", "{:.3f}"},
                                    {"relative_error", "rel. error", "{:.3f}"},
                                    {"delta", "delta", "{:.3f}"}};
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

void add_columns(StudyTable& table) {
  const std::vector<Column> rest = {{"contraction", "contraction", "{:.4f}"},
                                    {"bound", "bound", "{:.4f}"},
                                    {"bell", "bell", "{:.4f}"},
                                    {"residual_over_gradient", "r/g", "{:.2f}"},
                                    {"age_mean", "age", "{:.1f}"},
                                    {"age_p50", "p50", "{:.0f}"},
                                    {"age_p99", "p99", "{:.0f}"}};
  table.columns.insert(table.columns.end(), rest.begin(), rest.end());
  table.legend =
      "xi: ADTopk's; rel. error: |mean x - mean C(x)| / |mean g|; delta: "
      "gTop-k's (of a layer: LAGS'), holds up to 1;\ncontraction: |x - C(x)|^2 "
      "/ |x|^2, at most bound = 1 - k^/n (bell: its square); r/g: residual "
      "over gradient;\nage: steps since an entry was last sent, its mean, "
      "median and 99 % quantile after the last step";
}

StudyTable method_table(const std::vector<StudiedRun>& runs) {
  StudyTable table;
  table.title = "methods, over all layers and steps";
  table.columns = columns_after({{"method", "method", ""}});
  table.columns.push_back({"delta_worst", "worst", "{:.3f}"});
  add_columns(table);
  table.legend += "; worst: delta of the worst layer";
  for (const StudiedRun& run : runs) {
    Evidences all;
    for (const Json& row : run.rows) all.add(row);
    Json row = {{"method", run.method}};
    row.update(all.row());
    double worst = 0;
    for (const auto& [layer, e] : by_layer(run.rows)) {
      worst = std::max(worst, e.delta());
    }
    row["delta_worst"] = worst;
    add_ages(by_step(run.rows).rbegin()->second, row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

StudyTable layer_table(const std::vector<StudiedRun>& runs) {
  StudyTable table;
  table.title = "layers, over all steps";
  table.columns =
      columns_after({{"method", "method", ""}, {"layer", "layer", ""}});
  add_columns(table);
  for (const StudiedRun& run : runs) {
    const auto last = run.rows.back().at("step");
    std::map<std::string, Evidences> ends;
    for (const Json& row : run.rows) {
      if (row.at("step") == last) ends[row.at("layer")].add(row);
    }
    for (const auto& [layer, e] : by_layer(run.rows)) {
      Json row = {{"method", run.method}, {"layer", layer}};
      row.update(e.row());
      add_ages(ends[layer], row);
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::vector<Series> series_of(const std::vector<StudiedRun>& runs) {
  struct Quantity {
    const char* panel;
    const char* label;
    double (*of)(const Evidences&);
  };
  const Quantity quantities[] = {
      {"xi", "xi, mean over layers",
       [](const Evidences& e) { return e.mean("xi"); }},
      {"delta", "delta, all layers",
       [](const Evidences& e) { return e.delta(); }},
      {"contraction", "|x - C(x)|^2 / |x|^2, mean over layers",
       [](const Evidences& e) { return e.mean("contraction"); }},
      {"residual", "|residual| / |gradient|",
       [](const Evidences& e) { return e.residual(); }},
      {"age", "age of entries in steps, mean",
       [](const Evidences& e) { return e.mean("age_mean"); }}};
  SeriesSet series;
  for (const Quantity& q : quantities) {
    for (const StudiedRun& run : runs) {
      for (const auto& [step, e] : by_step(run.rows)) {
        series.add({run.method, q.panel, "step", q.label, {}, {}},
                   static_cast<double>(step), q.of(e));
      }
    }
  }
  return series.all();
}

std::string evidence_csv(const std::vector<StudiedRun>& runs) {
  std::vector<Json> rows;
  for (const StudiedRun& run : runs) {
    for (const Json& row : run.rows) {
      Json out = {{"method", run.method}};
      out.update(row);
      rows.push_back(std::move(out));
    }
  }
  return print_csv(rows);
}

void study_convergence(const Options& o) {
  require(!o.job.out.empty(), "[study] --out must name a folder for what is ",
          "found, as in --out runs/study");
  const Json study = {{"name", "convergence"},
                      {"every", o.job.every},
                      {"layers", spaced(o.job.layers)},
                      {"least", o.job.least}};
  require(!o.methods.empty(),
          "[study] --methods must name at least one, as in "
          "topk,adtopk");
  const auto runs = run_studied(o.job, o.methods, o.density, study);
  for (const StudiedRun& run : runs) {
    require(!run.rows.empty(), "[study] a method must select from some layer, ",
            "but '", run.method,
            "' was seen selecting from none; look at "
            "others (--layers, --least) or more steps (--every)");
  }
  StudyFile file;
  file.kind = "convergence";
  file.title = "what proofs of convergence assume";
  file.subtitle =
      fmt::format("{}, density {:g}", describe_job(runs[0]), o.density);
  file.series = series_of(runs);
  file.tables = {method_table(runs), layer_table(runs)};
  std::vector<std::pair<std::string, std::string>> files = {
      {"evidence.csv", evidence_csv(runs)}};
  for (const char* name : {"xi", "delta", "contraction", "residual", "age"}) {
    files.emplace_back(
        fmt::format("{}.svg", name),
        draw_series(file, name, fmt::format("{} by step", name)));
  }
  write_study(o.job.out, file, files);
  fmt::print("{}",
             o.job.json ? to_json(file, {}).dump(1) + "\n" : print_study(file));
}

}  // namespace

void add_study_convergence(CLI::App& study) {
  auto o = std::make_shared<Options>();
  CLI::App* command = study.add_subcommand(
      "convergence",
      "xi, delta, contraction, residuals and ages of entries, by method");
  add_examples(*command,
               {"sluice study convergence --out runs/proof --methods "
                "topk,adtopk,gtopk --every 20 -- --model lenet --workers 4 "
                "--max-steps 300"});
  add_studied_job(*command, o->job);
  command
      ->add_option("--methods", o->methods,
                   "Joined by commas, as for `sluice compare`")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--density", o->density, "Of all methods")
      ->capture_default_str();
  let_last_win(*command);
  command->callback([o] { study_convergence(*o); });
}

}  // namespace sluice
