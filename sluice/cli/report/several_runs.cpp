#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "sluice/cli/compare/report.h"
#include "sluice/cli/report/runs.h"
#include "sluice/config/config.h"
#include "sluice/core/error.h"
#include "sluice/report/advice.h"
#include "sluice/report/curves.h"
#include "sluice/report/markup.h"
#include "sluice/report/settings.h"
#include "sluice/run/summary.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string part_of(const Cell& cell) {
  return cell.fixed_density ? "" : fmt::format("{:g} %", 100 * cell.density);
}

// Runs of one method and density; those that are not finished, too, as long as
// none is.
std::vector<RunGroup> groups_of(const RunsOnPage& what) {
  std::map<std::string, std::size_t> places;
  std::vector<RunGroup> groups;
  std::vector<bool> finished;
  for (std::size_t i = 0; i < what.cells.size(); ++i) {
    const Cell& cell = what.cells[i];
    const RunRecord& run = what.runs[i];
    if (run.windows.empty() && run.evaluations.empty()) continue;
    RunGroup group{cell.method, part_of(cell), {}};
    const auto [it, fresh] = places.try_emplace(group.name(), groups.size());
    if (fresh) {
      groups.push_back(group);
      finished.push_back(run.finished);
    }
    auto& runs = groups[it->second].runs;
    if (run.finished && !finished[it->second]) {
      runs.clear();
      finished[it->second] = true;
    }
    if (run.finished || !finished[it->second]) runs.push_back(&run);
  }
  return groups;
}

double number_at(const Json& row, const std::string& key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_number() ? it->get<double>() : kNone;
}

TableCell fixed(double value, int digits) {
  return number_cell(fmt::format("{:.{}f}", value, digits), value);
}

std::string name_of(const Json& row) {
  const double density = number_at(row, "density");
  const std::string method = row.value("method", "");
  return density < 1 ? fmt::format("{} {:g} %", method, 100 * density) : method;
}

const RunGroup* group_named(const std::vector<RunGroup>& groups,
                            const std::string& name) {
  const auto it =
      std::find_if(groups.begin(), groups.end(),
                   [&](const RunGroup& g) { return g.name() == name; });
  return it == groups.end() ? nullptr : &*it;
}

double mean_waiting(const RunGroup& group) {
  double sum = 0;
  for (const RunRecord* run : group.runs) sum += run->exposed_share;
  return sum / static_cast<double>(group.runs.size());
}

double mean_step(const RunGroup& group) {
  double sum = 0;
  for (const RunRecord* run : group.runs) sum += run->step_s;
  return sum / static_cast<double>(group.runs.size());
}

double mean_bytes(const RunGroup& group) {
  double sum = 0;
  for (const RunRecord* run : group.runs) sum += run->bytes_per_step;
  return sum / static_cast<double>(group.runs.size());
}

PageTable methods_table(const Report& report,
                        const std::vector<RunGroup>& groups) {
  const ScoreKind& kind = *report.kind;
  const std::string unit = kind.percent ? " %" : "";
  PageTable table;
  table.title = "By method and density";
  table.heads = {{"method", ""},
                 {"density %", "asked for"},
                 {"recipe", "learning rate, and momentum wherever it is"},
                 {"seeds", "finished runs that the row is the mean of"},
                 {"final" + unit, "score of the last evaluation"},
                 {"+-", "half of what lies between the seeds"},
                 {"best" + unit, "score of the best evaluation"},
                 {"behind dense", "in points of percentages, else in percent"},
                 {"to target s", "seconds in training steps"},
                 {"ms/step", "median"},
                 {"waiting %", "of a step"},
                 {"kB/step", "sent by a worker"},
                 {"k^/k", "selected over budget"},
                 {"x step", "times faster than dense, by step"},
                 {"x target", "times faster than dense, to the target"}};
  for (const Json& row : report.rows) {
    const RunGroup* group = group_named(groups, name_of(row));
    const std::string dense = dense_label(number_at(row, "trained_dense"));
    table.rows.push_back(
        {text_cell(
             concat(row.value("method", ""), dense.empty() ? "" : ", ", dense)),
         number_cell(fmt::format("{:g}", 100 * number_at(row, "density")),
                     100 * number_at(row, "density")),
         text_cell(row.value("recipe", "")), fixed(number_at(row, "seeds"), 0),
         fixed(kind.shown(number_at(row, std::string(kind.name))), 2),
         fixed(kind.shown(number_at(row, "spread")), 2),
         fixed(kind.shown(number_at(row, "best")), 2),
         fixed(100 * number_at(row, "behind"), 2),
         fixed(number_at(row, "target_s"), 1),
         fixed(number_at(row, "step_ms"), 2),
         fixed(group == nullptr ? kNone : 100 * mean_waiting(*group), 0),
         fixed(number_at(row, "kb_per_step"), 1),
         fixed(number_at(row, "k_hat_over_k"), 2),
         fixed(number_at(row, "step_speedup"), 2),
         fixed(number_at(row, "target_speedup"), 2)});
  }
  return table;
}

std::string link_to(const RunsOnPage& what, const Cell& cell) {
  std::error_code error;
  const fs::path page = fs::path(cell.folder) / "report.html";
  if (!fs::exists(page, error)) return {};
  const fs::path link = fs::proximate(page, what.folder, error);
  return error ? "" : "./" + encode_path(link.generic_string());
}

PageTable runs_table(const RunsOnPage& what, const Report& report) {
  const ScoreKind& kind = *report.kind;
  const std::string unit = kind.percent ? " %" : "";
  PageTable table;
  table.title = "Every run";
  table.heads = {{"run", ""},
                 {"method", ""},
                 {"density %", ""},
                 {"seed", ""},
                 {"state", ""},
                 {"steps", ""},
                 {"final" + unit, ""},
                 {"best" + unit, ""},
                 {"to target s", ""},
                 {"ms/step", "median"},
                 {"waiting %", ""},
                 {"kB/step", ""},
                 {"density sent %", ""},
                 {"k^/k", ""}};
  for (std::size_t i = 0; i < what.cells.size(); ++i) {
    const Cell& cell = what.cells[i];
    const RunRecord& run = what.runs[i];
    const bool scored = !run.evaluations.empty();
    std::optional<double> reached;
    if (scored && report.target) reached = run.seconds_to(*report.target);
    const bool begun = !run.windows.empty();
    const auto of_steps = [&](double value) { return begun ? value : kNone; };
    std::string state = state_of(run);
    if (what.live && state == "unfinished") state = "running";
    const std::string dense = dense_label(run.trained_dense);
    if (!dense.empty()) state += ", " + dense;
    table.rows.push_back(
        {{fs::path(cell.folder).filename().string(), std::nullopt,
          link_to(what, cell)},
         text_cell(cell.method),
         number_cell(fmt::format("{:g}", 100 * cell.density),
                     100 * cell.density),
         fixed(static_cast<double>(cell.seed), 0),
         text_cell(state),
         fixed(begun ? run.windows.back().step : kNone, 0),
         fixed(scored ? kind.shown(run.final_score()) : kNone, 2),
         fixed(scored ? kind.shown(run.best_score()) : kNone, 2),
         fixed(reached.value_or(kNone), 1),
         fixed(of_steps(1e3 * run.step_s), 2),
         fixed(of_steps(100 * run.exposed_share), 0),
         fixed(of_steps(run.bytes_per_step / 1e3), 1),
         fixed(of_steps(100 * run.density), 3),
         fixed(of_steps(run.k_hat_over_k), 2)});
  }
  return table;
}

std::vector<MethodResult> results_of(const Report& report,
                                     const std::vector<RunGroup>& groups) {
  std::vector<MethodResult> results;
  for (const RunGroup& group : groups) {
    MethodResult r;
    r.name = group.name();
    r.config = group.runs[0]->config;
    r.runs = group.runs.size();
    r.step_s = mean_step(group);
    r.exposed_share = mean_waiting(group);
    r.k_hat_over_k = group.runs[0]->k_hat_over_k;
    for (const Json& row : report.rows) {
      if (name_of(row) != r.name) continue;
      const bool dense = row.value("method", "") == "dense";
      if (!dense && row["behind"].is_number()) r.behind = row["behind"];
      if (row["spread"].is_number()) r.spread = row["spread"];
      if (!dense && row["target_speedup"].is_number()) {
        r.speedup = row["target_speedup"];
      }
    }
    results.push_back(std::move(r));
  }
  return results;
}

std::vector<KeyNumber> tiles_of(const RunsOnPage& what, const Report& report) {
  const ScoreKind& kind = *report.kind;
  std::size_t finished = 0;
  for (const RunRecord& run : what.runs) finished += run.finished ? 1 : 0;
  std::vector<KeyNumber> tiles = {
      {"Runs", fmt::format("{}", what.runs.size()),
       fmt::format("{} of them finished", finished)}};
  const Json* best = nullptr;
  const Json* soonest = nullptr;
  const std::string score(kind.name);
  for (const Json& row : report.rows) {
    if (best == nullptr ||
        kind.better(number_at(row, score), number_at(*best, score))) {
      best = &row;
    }
    const double seconds = number_at(row, "target_s");
    if (std::isfinite(seconds) &&
        (soonest == nullptr || seconds < number_at(*soonest, "target_s"))) {
      soonest = &row;
    }
  }
  if (best != nullptr && std::isfinite(number_at(*best, score))) {
    tiles.push_back({"Best " + std::string(kind.label),
                     kind.text(number_at(*best, score)), name_of(*best)});
  }
  if (report.target) {
    tiles.push_back(
        {"Target", kind.text(*report.target), std::string(kind.label)});
  }
  if (soonest != nullptr) {
    const double times = number_at(*soonest, "target_speedup");
    tiles.push_back(
        {"Soonest at the target",
         fmt::format("{:.1f} s", number_at(*soonest, "target_s")),
         name_of(*soonest) + (std::isfinite(times)
                                  ? fmt::format(", {:.1f} x dense", times)
                                  : "")});
  }
  return tiles;
}

std::vector<Bars> bars_of(const std::vector<RunGroup>& groups) {
  Bars steps{"Time of a step", "pale: waiting for the exchange", {}};
  Bars bytes{"Sent by a worker per step", "", {}};
  for (const RunGroup& g : groups) {
    const double ms = 1e3 * mean_step(g);
    const double waiting = mean_waiting(g);
    steps.rows.push_back(
        {g.name(), fmt::format("{:.2f} ms, {:.0f} % waits", ms, 100 * waiting),
         ms, ms * waiting});
    const double kb = mean_bytes(g) / 1e3;
    bytes.rows.push_back({g.name(), fmt::format("{:.1f} kB", kb), kb, 0});
  }
  return {steps, bytes};
}

// The comparison, or what can be said where settings make no sense of it.
Report report_of(const RunsOnPage& what, std::vector<std::string>& notes) {
  const Target target =
      parse_target(what.target.empty() ? "dense-0.5" : what.target);
  try {
    return make_report(what.cells, what.runs, target, {});
  } catch (const std::exception& e) {
    notes.push_back(concat("no table by method: ", e.what()));
    Report report;
    report.kind = score_of(what.runs);
    if (!target.below_dense) {
      report.target = target.number / report.kind->shown(1);
    }
    return report;
  }
}

// A few, and how many more.
void add_notes(Page& page, const RunsOnPage& what) {
  std::map<std::string, std::vector<std::string>> by_note;
  for (std::size_t i = 0; i < what.runs.size(); ++i) {
    const std::string name = fs::path(what.cells[i].folder).filename().string();
    if (!what.runs[i].failure.empty()) {
      page.notes.push_back(name + " failed: " + what.runs[i].failure);
    }
    if (what.live) continue;
    for (const std::string& note : what.runs[i].notes) {
      by_note[note].push_back(name);
    }
  }
  for (const auto& [note, names] : by_note) {
    page.notes.push_back(names.size() == 1
                             ? names[0] + ": " + note
                             : fmt::format("{} and {} other runs: {}", names[0],
                                           names.size() - 1, note));
  }
}

Section settings_section(const RunsOnPage& what) {
  Section section;
  section.heading = "What was run";
  std::vector<std::string> names;
  std::vector<Json> configs;
  std::set<std::string> seen;
  std::string about;
  for (std::size_t i = 0; i < what.cells.size(); ++i) {
    const Cell& cell = what.cells[i];
    const std::string part = part_of(cell);
    const std::string name = cell.method + (part.empty() ? "" : " " + part);
    if (about.empty()) about = cell.folder + "/about.json";
    if (!what.runs[i].begun || !seen.insert(name).second) continue;
    names.push_back(name);
    configs.push_back(what.runs[i].config);
  }
  if (configs.empty()) return section;
  section.paragraphs = {"One of them again:"};
  section.commands = {command_of(configs[0])};
  section.tables = {about_table(read_json_or_nothing(about)),
                    differences_table(names, configs),
                    settings_table(configs[0])};
  section.tables[2].title += " (" + names[0] + ")";
  std::erase_if(section.tables,
                [](const PageTable& t) { return t.rows.empty(); });
  return section;
}

bool is_same_kind(const Json& a, const Json& b) {
  return a.type() == b.type() || (a.is_number() && b.is_number());
}

}  // namespace

Page page_of_runs(const RunsOnPage& what) {
  Page page;
  const auto begun = std::find_if(what.runs.begin(), what.runs.end(),
                                  [](const RunRecord& r) { return r.begun; });
  const Json config = begun == what.runs.end() ? Json() : begun->config;
  page.title = what.title.empty() ? job_title(config) : what.title;
  std::set<std::int64_t> seeds;
  for (const Cell& cell : what.cells) seeds.insert(cell.seed);
  page.subtitle =
      concat(job_setting(config), "; ", seeds.size(),
             seeds.size() == 1 ? " seed" : " seeds, curves are means of them");
  const bool all = std::all_of(what.runs.begin(), what.runs.end(),
                               [](const RunRecord& r) { return r.finished; });
  page.state = all ? "finished" : what.live ? "running" : "unfinished";
  page.notes = what.notes;
  const Report report = report_of(what, page.notes);
  add_notes(page, what);
  const std::vector<RunGroup> groups = groups_of(what);
  page.tiles = tiles_of(what, report);
  Section next = titled("What to do next");
  if (!groups.empty()) {
    next.points = next_steps(results_of(report, groups), *report.kind);
  }
  Section learning = titled("Learning");
  learning.figures = learning_figures(groups, {report.kind, report.target});
  Section methods = titled("Methods");
  if (!report.rows.empty()) {
    methods.tables.push_back(methods_table(report, groups));
  }
  Section runs = titled("Runs");
  runs.tables.push_back(runs_table(what, report));
  Section traffic = titled("What is sent");
  Section time = titled("Where the time goes");
  if (!groups.empty()) {
    auto bars = bars_of(groups);
    time.bars = {bars[0]};
    traffic.bars = {bars[1]};
  }
  traffic.figures = traffic_figures(groups);
  time.figures = time_figures(groups);
  page.sections = {
      next, learning, methods, time, traffic, runs, settings_section(what)};
  return page;
}

Cell cell_of_run(const std::string& folder, const RunRecord& run) {
  Cell cell;
  cell.folder = folder;
  cell.method = method_of(run.config);
  cell.density = density_of(run.config);
  cell.fixed_density = cell.density >= 1;
  // make_report() counts on every key; a file of another version has not all.
  cell.config = Json::parse(to_json(TrainConfig()));
  if (!run.config.is_object()) return cell;
  for (auto& [key, value] : cell.config.items()) {
    const auto it = run.config.find(key);
    if (it != run.config.end() && is_same_kind(*it, value)) value = *it;
  }
  const Json seed = run.config.value("seed", Json());
  if (seed.is_number_integer()) cell.seed = seed.get<std::int64_t>();
  return cell;
}

void tell_apart(std::vector<Cell>& cells) {
  const auto settings_of = [](const Cell& cell) {
    Json config = cell.config;
    config.erase("seed");
    config.erase("out");
    return config.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::map<std::string, std::set<std::string>> kinds;
  const auto key = [](const Cell& c) {
    return concat(c.method, " ", c.density);
  };
  // Twice the same with the same seed is two runs, too.
  std::map<std::string, std::size_t> same;
  for (const Cell& cell : cells) {
    kinds[key(cell)].insert(settings_of(cell));
    ++same[concat(key(cell), " ", cell.seed)];
  }
  for (Cell& cell : cells) {
    const bool alike = kinds[key(cell)].size() == 1 &&
                       same[concat(key(cell), " ", cell.seed)] == 1;
    if (alike) continue;
    cell.method += " (" + fs::path(cell.folder).filename().string() + ")";
  }
}

}  // namespace sluice
