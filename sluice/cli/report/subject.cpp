#include "sluice/cli/report/subject.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "sluice/cli/compare/report.h"
#include "sluice/cli/report/runs.h"
#include "sluice/cli/shared/build_info.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/report/plan_page.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool has(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder + "/" + name, error);
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_run(const std::string& folder) {
  return has(folder, "config.json") || has(folder, "metrics.jsonl") ||
         has(folder, "summary.json") || has(folder, "checkpoints");
}

// Run folders inside of a folder, by name.
std::vector<std::string> runs_in(const std::string& folder) {
  std::vector<std::string> runs;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    if (is_folder(path) && is_run(path)) runs.push_back(path);
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

RunsOnPage on_page(const ReportRequest& request) {
  RunsOnPage what;
  what.target = request.target;
  what.folder = request.folder;
  what.live = request.refresh_s > 0;
  return what;
}

Page runs_page(RunsOnPage what, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    what.runs.push_back(read_run(folder));
    what.cells.push_back(cell_of_run(folder, what.runs.back()));
  }
  if (folders.size() == 1) return page_of_run(what);
  tell_apart(what.cells);
  return page_of_runs(what);
}

// The folder may have been moved since.
Cell read_cell(const Json& item, const std::string& folder) {
  Cell cell;
  cell.method = item.at("method").get<std::string>();
  cell.density = item.at("density").get<double>();
  cell.fixed_density = item.at("fixed_density").get<bool>();
  cell.seed = item.at("seed").get<std::int64_t>();
  cell.config = item.at("config");
  const fs::path out = cell.config.at("out").get<std::string>();
  cell.folder = folder + "/" + out.filename().string();
  return cell;
}

Page compare_page(const ReportRequest& request, const std::string& folder) {
  RunsOnPage what = on_page(request);
  const Json json = read_json_or_nothing(folder + "/compare.json");
  try {
    for (const Json& item : json.at("cells")) {
      what.cells.push_back(read_cell(item, folder));
      what.runs.push_back(read_run(what.cells.back().folder));
    }
  } catch (const Json::exception&) {
    what.cells.clear();
    what.runs.clear();
  }
  if (!what.cells.empty()) return page_of_runs(what);
  what.notes = {
      "compare.json cannot be read: these are the runs that are in the folder"};
  const auto runs = runs_in(folder);
  require(!runs.empty(), "[report] '", folder, "' must have runs: its ",
          "compare.json cannot be read, and there are no run folders in it");
  return runs_page(what, runs);
}

Page file_page(const std::string& path) {
  const std::string text = read_text_file("report", path);
  const Json json = read_json_or_nothing(path);
  require(json.is_object(), "[report] '", path,
          "' must be the folder of a run, a comparison or a study, or a "
          "plan.json; it is a file that holds no JSON object");
  const std::string name = fs::path(path).filename().string();
  if (json.contains("buckets")) return plan_page(path, text);
  require(json.contains("series") || json.contains("tables"), "[report] '",
          path, "' must be a plan.json (with \"buckets\") or a study.json ",
          "(with \"series\"); of a run give its folder");
  return study_page(name, json);
}

Page folder_page(const ReportRequest& request, const std::string& path) {
  if (has(path, "compare.json")) return compare_page(request, path);
  if (has(path, "study.json")) {
    const Json study = read_json_or_nothing(path + "/study.json");
    require(study.is_object(), "[report] '", path,
            "/study.json' must hold a JSON object; is it half written?");
    return study_page(path, study);
  }
  if (is_run(path)) return runs_page(on_page(request), {path});
  const auto runs = runs_in(path);
  if (!runs.empty()) return runs_page(on_page(request), runs);
  if (has(path, "plan.json")) return file_page(path + "/plan.json");
  RunsOnPage what = on_page(request);
  what.notes = {
      concat("'", path, "' has no run, comparison, study or plan in it (yet)")};
  return runs_page(what, {path});
}

Page page_of(const ReportRequest& request) {
  require(!request.paths.empty(),
          "[report] needs something to report on: run folders, the folder of a "
          "comparison or a study, or a plan.json");
  for (const std::string& path : request.paths) {
    if (is_folder(path)) continue;
    const std::string problem = why_no_file(path);
    require(problem.empty(), "[report] '", path,
            "' must be a folder or a plan.json: ", problem);
  }
  if (request.paths.size() > 1) {
    for (const std::string& path : request.paths) {
      require(is_folder(path) && !has(path, "compare.json") &&
                  !has(path, "study.json"),
              "[report] several arguments must all be run folders, got '", path,
              "', which has a page of its own");
    }
    return runs_page(on_page(request), request.paths);
  }
  const std::string& path = request.paths[0];
  return is_folder(path) ? folder_page(request, path) : file_page(path);
}

}  // namespace

Page make_page(const ReportRequest& request) {
  if (!request.target.empty()) parse_target(request.target);
  Page page = page_of(request);
  page.refresh_s = page.state == "running" ? request.refresh_s : 0;
  page.made = fmt::format(
      "Made by sluice {} at {:%Y-%m-%d %H:%M:%S} UTC.{}", program_version(),
      fmt::gmtime(std::time(nullptr)),
      page.refresh_s > 0 ? " The page loads itself again while it runs." : "");
  return page;
}

}  // namespace sluice
