#include "sluice/cli/compare/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sluice/cli/compare/methods.h"
#include "sluice/cli/compare/plots.h"
#include "sluice/cli/shared/table.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/run/summary.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// How much worse `b` is than `a`: in points if they are shares, else as a share
// of `a`.
double behind(const ScoreKind& kind, double a, double b) {
  const double worse = kind.up ? a - b : b - a;
  return kind.percent ? worse : worse / a;
}

// A score is a share, or has no unit.
Table table_of(const ScoreKind& kind) {
  const double scale = kind.shown(1);
  Table table;
  table.columns = {
      {"method", "method", ""},
      {"density", "density %", "{:g}", 100},
      {"feedback", "feedback", ""},
      {"recipe", "recipe", ""},
      {"seeds", "seeds", "{}"},
      {kind.name, kind.percent ? "final %" : "final", "{:.2f}", scale},
      {"spread", "+-", "{:.2f}", scale},
      {"best", kind.percent ? "best %" : "best", "{:.2f}", scale},
      {"behind", kind.percent ? "behind dense" : "behind dense %", "{:.2f}",
       100},
      {"target_s", "to target s", "{:.1f}"},
      {"kb_per_step", "kB/step", "{:.1f}"},
      {"step_ms", "ms/step", "{:.2f}"},
      {"k_hat_over_k", "k^/k", "{:.2f}"},
      {"step_speedup", "x step", "{:.2f}"},
      {"target_speedup", "x target", "{:.2f}"},
  };
  table.legend =
      std::string(kind.label) +
      " final, best: mean over seeds; +-: half of what lies between the seeds; "
      "to target: seconds in training steps until the mean reaches it; "
      "kB/step: sent per worker; ms/step: median; k^/k: entries selected over "
      "those asked for; x: times faster than dense";
  return table;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

Json maybe(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json ratio(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number() || b.get<double>() == 0) return {};
  return a.get<double>() / b.get<double>();
}

// Finished runs of one method at one density.
struct Group {
  const Cell* cell = nullptr;  // the first of them
  std::vector<const RunRecord*> runs;

  template <class F>
  std::vector<double> each(F&& f) const {
    std::vector<double> values;
    for (const RunRecord* run : runs) values.push_back(f(*run));
    return values;
  }
};

std::vector<Group> group(const std::vector<Cell>& cells,
                         const std::vector<RunRecord>& runs) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!runs[i].finished) continue;
    auto it = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.cell->method == cells[i].method &&
             g.cell->density == cells[i].density;
    });
    if (it == groups.end()) it = groups.insert(it, {&cells[i], {}});
    it->runs.push_back(&runs[i]);
  }
  return groups;
}

bool evaluated(const Group& g) {
  return std::all_of(g.runs.begin(), g.runs.end(), [](const RunRecord* run) {
    return !run->evaluations.empty();
  });
}

// When the mean over seeds came to it: a single seed of dense may stay below a
// target that its mean has set.
Json seconds_to(const Group& g, const std::optional<double>& target) {
  if (!target) return {};
  std::size_t count = g.runs[0]->evaluations.size();
  for (const RunRecord* run : g.runs) {
    count = std::min(count, run->evaluations.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto score = mean(
        g.each([&](const RunRecord& r) { return r.evaluations[i].score; }));
    if (g.runs[0]->kind->better(*target, score)) continue;
    return mean(
        g.each([&](const RunRecord& r) { return r.evaluations[i].seconds; }));
  }
  return {};
}

Json make_row(const Group& g, const ScoreKind& kind,
              const std::optional<double>& target) {
  const auto text = [&](const char* key) {
    return g.cell->config.at(key).get<std::string>();
  };
  const bool dense = text("sparsifier") == "none";
  Json row = {{"method", g.cell->method}, {"density", g.cell->density}};
  row["feedback"] = dense ? "-" : text("feedback");
  row["recipe"] = recipe_text(g.cell->config);
  row["seeds"] = g.runs.size();
  row[kind.name] = row["spread"] = row["best"] = row["behind"] = Json();
  if (evaluated(g)) {
    const auto finals =
        g.each([](const RunRecord& r) { return r.final_score(); });
    const auto [low, high] = std::minmax_element(finals.begin(), finals.end());
    row[kind.name] = mean(finals);
    row["spread"] = (*high - *low) / 2;
    row["best"] =
        mean(g.each([](const RunRecord& r) { return r.best_score(); }));
  }
  row["target_s"] = seconds_to(g, target);
  row["kb_per_step"] =
      mean(g.each([](const RunRecord& r) { return r.bytes_per_step; })) / 1e3;
  row["step_ms"] =
      1e3 * mean(g.each([](const RunRecord& r) { return r.step_s; }));
  row["k_hat_over_k"] =
      mean(g.each([](const RunRecord& r) { return r.k_hat_over_k; }));
  row["step_speedup"] = row["target_speedup"] = Json();
  row["trained_dense"] =
      mean(g.each([](const RunRecord& r) { return r.trained_dense; }));
  row["sent_density"] =
      mean(g.each([](const RunRecord& r) { return r.density; }));
  for (const char* key : {"sparsifier", "collective", "optimizer"}) {
    row[key] = text(key);
  }
  return row;
}

// What is measured against the plain dense run.
void compare_with_dense(std::vector<Json>& rows, const ScoreKind& kind) {
  const auto dense =
      std::find_if(rows.begin(), rows.end(),
                   [](const Json& row) { return row["method"] == "dense"; });
  if (dense == rows.end()) return;
  const Json base = *dense;
  for (Json& row : rows) {
    if (base[kind.name].is_number() && row[kind.name].is_number()) {
      row["behind"] = behind(kind, base[kind.name].get<double>(),
                             row[kind.name].get<double>());
    }
    row["step_speedup"] = ratio(base["step_ms"], row["step_ms"]);
    row["target_speedup"] = ratio(base["target_s"], row["target_s"]);
  }
}

std::optional<double> resolve(const Target& target, const ScoreKind& kind,
                              const std::vector<Group>& groups) {
  if (!target.below_dense) return target.number / kind.shown(1);
  for (const Group& g : groups) {
    if (g.cell->method != "dense" || !evaluated(g)) continue;
    const double dense =
        mean(g.each([](const RunRecord& r) { return r.final_score(); }));
    const double worse =
        (kind.percent ? 1 : dense) * (kind.up ? -1 : 1) * target.number / 100;
    return dense + worse;
  }
  return std::nullopt;
}

Json describe_run(const Cell& cell, const RunRecord& run, const ScoreKind& kind,
                  const std::optional<double>& target) {
  Json json = {{"method", cell.method},
               {"density", cell.density},
               {"seed", cell.seed},
               {"folder", cell.folder},
               {"state", state_of(run)},
               {"failure", run.failure},
               {std::string(kind.name), Json()},
               {"best", Json()},
               {"target_s", Json()},
               {"step_ms", 1e3 * run.step_s},
               {"kb_per_step", run.bytes_per_step / 1e3},
               {"k_hat_over_k", run.k_hat_over_k},
               {"trained_dense", run.trained_dense}};
  if (run.evaluations.empty()) return json;
  json[kind.name] = run.final_score();
  json["best"] = run.best_score();
  if (target) json["target_s"] = maybe(run.seconds_to(*target));
  return json;
}

std::string job_line(const Json& c) {
  const auto text = [&](const char* key) {
    return c.at(key).get<std::string>();
  };
  const auto steps = c.at("max_steps").get<std::int64_t>();
  return fmt::format(
      "{} on {}: {} workers ({}{}{}), batch {} each, {}, rate {}",
      text("model"), text("dataset"), c.at("workers").get<std::int64_t>(),
      text("engine"), text("net").empty() ? "" : ", network ", text("net"),
      c.at("batch_size").get<std::int64_t>(),
      steps > 0 ? fmt::format("{} steps", steps)
                : fmt::format("{} epochs", c.at("epochs").get<std::int64_t>()),
      text("lr_schedule"));
}

std::vector<std::string> make_notes(const std::vector<Cell>& cells,
                                    const std::vector<RunRecord>& runs,
                                    const std::optional<double>& target,
                                    const HowRun& how) {
  const ScoreKind& kind = *score_of(runs);
  std::vector<std::string> notes = {job_line(cells[0].config)};
  notes.push_back(
      target ? fmt::format("target: {} {}", kind.label, kind.text(*target))
             : "target: none (no finished dense run; --target NUMBER)");
  if (how.grid.empty()) {
    notes.push_back(
        "recipe: the job's, with momentum where the method wants it; --tune "
        "looks for better ones");
  } else {
    notes.push_back(
        fmt::format("recipe: the best final score with the first seed, of "
                    "{} (multiples of the method's own)",
                    how.grid));
  }
  if (how.jobs > 1) {
    notes.push_back(fmt::format(
        "{} runs at a time share the machine: times are not comparable",
        how.jobs));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string state = state_of(runs[i]);
    const std::string dense = dense_label(runs[i].trained_dense);
    if (!dense.empty()) {
      notes.push_back(fmt::format(
          "{}: {}, as its plan sends whole what {} was to select from; --plan "
          "fixed keeps it sparse",
          cells[i].describe(), dense,
          cells[i].config.at("sparsifier").get<std::string>()));
    }
    if (state == "finished") continue;
    notes.push_back(fmt::format("{}: {}{}{}", cells[i].describe(), state,
                                runs[i].failure.empty() ? "" : ": ",
                                runs[i].failure));
  }
  return notes;
}

// Rows whose methods say what became of them.
std::vector<Json> for_people(std::vector<Json> rows) {
  for (Json& row : rows) {
    const std::string dense = dense_label(row["trained_dense"].get<double>());
    if (dense.empty()) continue;
    row["method"] = concat(row["method"].get<std::string>(), ", ", dense);
  }
  return rows;
}

// Null is nothing in CSV.
std::vector<Json> without_nulls(std::vector<Json> rows) {
  for (Json& row : rows) {
    for (auto& value : row) {
      if (value.is_null()) value = "";
    }
  }
  return rows;
}

}  // namespace

Target parse_target(const std::string& text) {
  Target target;
  target.below_dense = text.starts_with("dense-");
  const char* begin = text.data() + (target.below_dense ? 6 : 0);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, last, target.number);
  require(error == std::errc() && end == last && target.number >= 0 &&
              target.number <= 1e6 &&
              (!target.below_dense || target.number <= 100),
          "[compare] --target must be a score, as in 88.5 (accuracies in "
          "percent), or so many percent worse than dense, as in dense-0.5, "
          "got '",
          text, "'");
  return target;
}

Report make_report(const std::vector<Cell>& cells,
                   const std::vector<RunRecord>& runs, const Target& target,
                   const HowRun& how) {
  Report report;
  const std::vector<Group> groups = group(cells, runs);
  report.kind = score_of(runs);
  report.target = resolve(target, *report.kind, groups);
  for (const Group& g : groups) {
    report.rows.push_back(make_row(g, *report.kind, report.target));
  }
  compare_with_dense(report.rows, *report.kind);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    report.runs.push_back(
        describe_run(cells[i], runs[i], *report.kind, report.target));
  }
  report.notes = make_notes(cells, runs, report.target, how);
  return report;
}

std::string print_report(const Report& report) {
  std::string text = print_rows(for_people(report.rows), table_of(*report.kind),
                                Format::kTable);
  for (const std::string& note : report.notes) text += note + "\n";
  return text;
}

void write_report(const std::string& folder, const Report& report,
                  const std::vector<Cell>& cells,
                  const std::vector<RunRecord>& runs) {
  std::string markdown = print_rows(for_people(report.rows),
                                    table_of(*report.kind), Format::kMarkdown);
  for (const std::string& note : report.notes) markdown += "\n" + note + "\n";
  const Json all = {{"score", report.kind->name},
                    {"target", maybe(report.target)},
                    {"rows", report.rows},
                    {"runs", report.runs},
                    {"notes", report.notes}};
  write_text(folder + "/table.txt", print_report(report));
  write_text(folder + "/table.md", markdown);
  write_text(folder + "/table.csv", print_csv(without_nulls(report.rows)));
  write_text(folder + "/table.json",
             all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  for (const auto& [name, picture] : make_plots(cells, runs)) {
    write_text(folder + "/" + name, picture);
  }
}

}  // namespace sluice
