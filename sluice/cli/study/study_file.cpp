#include "sluice/cli/study/study_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double v : values)
    out.push_back(std::isfinite(v) ? Json(v) : Json());
  return out;
}

Json to_json(const StudyTable& table) {
  Json columns = Json::array();
  for (const Column& c : table.columns) columns.push_back(c.title);
  Json rows = Json::array();
  for (const Json& row : table.rows) {
    Json cells = Json::array();
    for (const Column& c : table.columns) {
      const auto at = row.find(std::string(c.key));
      cells.push_back(at == row.end() ? Json() : *at);
    }
    rows.push_back(std::move(cells));
  }
  return {{"title", table.title},
          {"legend", table.legend},
          {"columns", columns},
          {"rows", rows}};
}

bool is_empty_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) && fs::is_empty(path, error);
}

}  // namespace

bool is_log(const std::string& label) {
  return label.find("(log)") != std::string::npos;
}

Json to_json(const StudyFile& study, const std::vector<std::string>& files) {
  Json series = Json::array();
  for (const Series& s : study.series) {
    series.push_back({{"name", s.name},
                      {"panel", s.panel},
                      {"x_label", s.x_label},
                      {"y_label", s.y_label},
                      {"log_x", is_log(s.x_label)},
                      {"log_y", is_log(s.y_label)},
                      {"x", numbers(s.x)},
                      {"y", numbers(s.y)}});
  }
  Json tables = Json::array();
  for (const StudyTable& t : study.tables) tables.push_back(to_json(t));
  return {{"kind", study.kind},         {"title", study.title},
          {"subtitle", study.subtitle}, {"series", series},
          {"tables", tables},           {"files", files}};
}

std::string print_study(const StudyFile& study) {
  std::string out = study.title + "\n" + study.subtitle + "\n";
  for (const StudyTable& t : study.tables) {
    out += "\n" + t.title + "\n";
    out += print_rows(t.rows, {t.columns, t.legend}, Format::kTable);
  }
  return out;
}

void SeriesSet::add(const Series& like, double x, double y) {
  auto at = std::find_if(series_.begin(), series_.end(), [&](const Series& s) {
    return s.panel == like.panel && s.name == like.name;
  });
  if (at == series_.end()) at = series_.insert(series_.end(), like);
  at->x.push_back(x);
  at->y.push_back(y);
}

std::string draw_series(const StudyFile& study, const std::string& prefix,
                        const std::string& title) {
  std::vector<Panel> panels;
  Axis x;
  Axis y;
  for (const Series& s : study.series) {
    if (!s.panel.starts_with(prefix)) continue;
    std::string name = s.panel.substr(prefix.size());
    while (name.starts_with(' ') || name.starts_with(':')) name.erase(0, 1);
    if (panels.empty() || panels.back().title != name) {
      panels.push_back({name, {}});
    }
    panels.back().curves.push_back({s.name, s.x, s.y});
    x = {.label = s.x_label, .log = is_log(s.x_label)};
    y = {.label = s.y_label, .log = is_log(s.y_label)};
  }
  return panels.empty() ? "" : draw_plot(title, panels, x, y);
}

void open_study_folder(const std::string& out, bool overwrite) {
  require(!out.empty(), "[study] --out must name a folder for what is found");
  std::error_code error;
  if (fs::exists(out, error) && !is_empty_folder(out)) {
    const bool study = fs::exists(out + "/study.json", error) ||
                       fs::exists(out + "/runs", error);
    require(study,
            "[study] --out must be a new folder or one of a study, got '", out,
            "', which has other things in it; choose another");
    require(overwrite, "[study] --out must be a new folder, got '", out,
            "', which has a study; --overwrite replaces it");
    fs::remove_all(out, error);
  }
  fs::create_directories(out, error);
  require(!error, "[study] --out must be a folder that can be made, got '", out,
          "': ", error.message());
}

void write_study(
    const std::string& out, const StudyFile& study,
    const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    if (text.empty()) continue;
    write_text(out + "/" + name, text);
    names.push_back(name);
  }
  write_text(out + "/study.json", to_json(study, names).dump(1) + "\n");
  fmt::print(stderr, "[study] {}: study.json {}\n", out, fmt::join(names, " "));
}

}  // namespace sluice
