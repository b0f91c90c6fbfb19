#include <fmt/format.h>

#include <cmath>

#include "sluice/cli/compare/report.h"
#include "sluice/cli/report/runs.h"
#include "sluice/core/error.h"
#include "sluice/report/advice.h"
#include "sluice/report/curves.h"
#include "sluice/report/plan_page.h"
#include "sluice/report/settings.h"
#include "sluice/report/timeline_plot.h"
#include "sluice/run/summary.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_text(double bytes) {
  return bytes < 1e6 ? fmt::format("{:.1f} kB", bytes / 1e3)
                     : fmt::format("{:.2f} MB", bytes / 1e6);
}

std::optional<double> target_of(const RunsOnPage& what, const RunRecord& run) {
  if (what.target.empty()) return std::nullopt;
  const Target target = parse_target(what.target);
  // One run has no dense one beside it.
  if (target.below_dense) return std::nullopt;
  return target.number / run.kind->shown(1);
}

std::vector<KeyNumber> tiles_of(const RunRecord& run,
                                const std::optional<double>& target) {
  std::vector<KeyNumber> tiles;
  if (!run.evaluations.empty()) {
    tiles.push_back({"Test " + std::string(run.kind->label),
                     run.kind->text(run.final_score()),
                     "best " + run.kind->text(run.best_score())});
  }
  if (target) {
    const auto seconds = run.seconds_to(*target);
    tiles.push_back({"To " + run.kind->text(*target),
                     seconds ? fmt::format("{:.1f} s", *seconds) : "never",
                     "in training steps"});
  }
  if (run.windows.empty()) return tiles;
  const auto& last = run.windows.back();
  tiles.push_back({"Steps", fmt::format("{:.0f}", last.step),
                   fmt::format("{:.1f} s in them", last.seconds)});
  tiles.push_back(
      {"A step", fmt::format("{:.2f} ms", 1e3 * run.step_s), "median"});
  tiles.push_back({"Waiting", fmt::format("{:.0f} %", 100 * run.exposed_share),
                   "of a step, for the exchange"});
  tiles.push_back(
      {"Sent per step", bytes_text(run.bytes_per_step), "by a worker"});
  tiles.push_back({"Density", fmt::format("{:.3g} %", 100 * run.density),
                   fmt::format("k\u0302/k {:.2f}", run.k_hat_over_k)});
  return tiles;
}

Section next_section(const RunRecord& run, const std::string& folder) {
  Section section = titled("What to do next");
  section.points = next_steps_of_run(run, folder);
  MethodResult result;
  result.name = "This run";
  result.config = run.config;
  result.step_s = run.step_s;
  result.exposed_share = run.exposed_share;
  result.k_hat_over_k = run.k_hat_over_k;
  for (std::string& text : next_steps({result}, *run.kind)) {
    section.points.push_back(std::move(text));
  }
  return section;
}

Section timeline_section(const std::string& folder) {
  Section section = titled("Timeline of a step");
  const std::string trace = read_file_or_nothing(folder + "/trace.json");
  if (trace.empty()) return section;
  const TimelinePicture picture = draw_timeline(trace);
  if (picture.svg.empty()) {
    section.paragraphs = {picture.note};
  } else {
    section.figures = {
        {"What each worker did when", picture.note, picture.svg, true}};
  }
  return section;
}

Section settings_section(const RunRecord& run, const std::string& folder) {
  Section section = titled("What was run");
  section.paragraphs = {"Folder: " + folder};
  if (run.begun) section.commands = {command_of(run.config)};
  section.tables = {about_table(read_json_or_nothing(folder + "/about.json")),
                    settings_table(run.config)};
  std::erase_if(section.tables,
                [](const PageTable& t) { return t.rows.empty(); });
  return section;
}

}  // namespace

Page page_of_run(const RunsOnPage& what) {
  const RunRecord& run = what.runs[0];
  const std::string& folder = what.cells[0].folder;
  Page page;
  page.title = job_title(run.config);
  const std::string density = density_text(run.config);
  page.subtitle = concat(
      method_of(run.config), density.empty() ? "" : " at " + density, "; ",
      job_setting(run.config), "; seed ", setting(run.config, "seed"));
  page.state = what.live && !run.finished ? "running" : state_of(run);
  page.notes = what.notes;
  const std::string dense = dense_label(run.trained_dense);
  if (!dense.empty()) {
    page.notes.push_back(
        concat(dense, ": its plan sends whole what ", method_of(run.config),
               " was to select from; --plan fixed keeps it sparse"));
  }
  if (!run.failure.empty()) page.notes.push_back("it failed: " + run.failure);
  if (!what.live) {
    page.notes.insert(page.notes.end(), run.notes.begin(), run.notes.end());
  }
  const auto target = target_of(what, run);
  page.tiles = tiles_of(run, target);
  const std::vector<RunGroup> groups = {{method_of(run.config), "", {&run}}};
  Section learning = titled("Learning");
  learning.figures = learning_figures(groups, {run.kind, target});
  Section traffic = titled("What is sent");
  traffic.figures = traffic_figures(groups);
  Section time = titled("Where the time goes");
  time.figures = time_figures(groups);
  Section plan = plan_section(read_file_or_nothing(folder + "/plan.json"));
  page.sections = {next_section(run, folder),
                   learning,
                   traffic,
                   time,
                   timeline_section(folder),
                   plan,
                   settings_section(run, folder)};
  return page;
}

}  // namespace sluice
