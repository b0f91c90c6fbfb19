#include "sluice/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sluice/plan/decisions.h"
#include "sluice/report/curves.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFigures = 24;
constexpr std::size_t kMostTables = 12;
constexpr std::size_t kMostSeries = 30;
constexpr std::size_t kMostPoints = 240;

PageTable buckets_table(const Decision& decision,
                        const std::vector<std::string>& names) {
  const Plan& plan = decision.plan;
  const auto labels = bucket_labels(plan, names);
  PageTable table;
  table.title =
      fmt::format("From step {} on: {}{}", decision.step + 1, plan.name,
                  plan.hierarchical ? ", hierarchical" : "");
  table.heads = {{"bucket", "in the order of exchange"},
                 {"tensors", "the first one, and how many more"},
                 {"count", "tensors"},
                 {"piece", "where a tensor is cut"},
                 {"sparsifier", "none: dense"},
                 {"feedback", ""},
                 {"collective", ""},
                 {"density", "its own; else that of the job"},
                 {"values", ""},
                 {"selected on", ""}};
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const BucketPlan& b = plan.buckets[i];
    std::string sparsifier = b.sparsifier;
    for (const std::string& turn : b.turns) sparsifier += ", " + turn;
    table.rows.push_back(
        {number_cell(fmt::format("{}", i), static_cast<double>(i)),
         text_cell(labels[i]),
         number_cell(fmt::format("{}", b.tensors.size()),
                     static_cast<double>(b.tensors.size())),
         text_cell(b.piece.whole() ? "-"
                                   : fmt::format("{} of {}", b.piece.index + 1,
                                                 b.piece.count)),
         text_cell(sparsifier), text_cell(b.dense() ? "-" : b.feedback),
         text_cell(b.collective),
         b.density
             ? number_cell(fmt::format("{:g} %", 100 * *b.density), *b.density)
             : text_cell("-"),
         text_cell(b.dense() ? "-" : b.values),
         text_cell(b.device.empty() ? "where it is" : b.device)});
  }
  table.note = decision.why;
  return table;
}

Section section_of(const std::string& text) {
  const std::vector<std::string> names = plan_tensors(text);
  Section section = titled("Plan");
  const Decisions decisions = decisions_from_json(text, names);
  for (const Decision& decision : decisions) {
    section.tables.push_back(buckets_table(decision, names));
  }
  return section;
}

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::vector<double> numbers_at(const Json& object, const char* key) {
  std::vector<double> values;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return values;
  for (const Json& value : *it) {
    values.push_back(value.is_number() ? value.get<double>() : NAN);
  }
  return values;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : none;
}

// Spread over so many decades that a linear axis would show the largest alone.
bool wants_log(const Panel& panel) {
  double low = 0;
  double high = 0;
  for (const Curve& c : panel.curves) {
    for (const double y : c.y) {
      if (!std::isfinite(y)) continue;
      if (y <= 0) return false;
      low = low == 0 ? y : std::min(low, y);
      high = std::max(high, y);
    }
  }
  return high > 100 * low;
}

struct StudyFigure {
  Panel panel;
  Axis x;
  Axis y;
  bool told = false;  // whether an axis is logarithmic
};

std::vector<StudyFigure> study_figures(const Json& study, Page& page) {
  std::vector<StudyFigure> all;
  std::size_t bad = 0;
  for (const Json& series : list_at(study, "series")) {
    if (!series.is_object()) {
      ++bad;
      continue;
    }
    Curve curve{text_at(series, "name"), numbers_at(series, "x"),
                numbers_at(series, "y")};
    if (curve.x.empty() || curve.x.size() != curve.y.size()) {
      ++bad;
      continue;
    }
    const std::string title = text_at(series, "panel");
    auto it = std::find_if(all.begin(), all.end(), [&](const StudyFigure& f) {
      return f.panel.title == title;
    });
    if (it == all.end()) {
      StudyFigure made;
      made.panel.title = title;
      made.x.label = text_at(series, "x_label");
      made.y.label = text_at(series, "y_label");
      made.x.log = series.value("log_x", Json()) == true;
      made.y.log = series.value("log_y", Json()) == true;
      made.told = series.contains("log_y");
      it = all.insert(it, made);
    }
    if (it->panel.curves.size() < kMostSeries) {
      it->panel.curves.push_back(thinned(curve, kMostPoints));
    }
  }
  if (bad > 0) {
    page.notes.push_back(
        fmt::format("{} series have no points and are left out", bad));
  }
  if (all.size() > kMostFigures) {
    page.notes.push_back(fmt::format("the first {} of {} panels are shown",
                                     kMostFigures, all.size()));
    all.resize(kMostFigures);
  }
  return all;
}

TableCell study_cell(const Json& value) {
  if (value.is_number()) {
    const auto number = value.get<double>();
    return number_cell(fmt::format("{:.5g}", number), number);
  }
  if (value.is_string()) return text_cell(value.get<std::string>());
  return text_cell(value.is_null() ? "-" : value.dump());
}

PageTable study_table(const Json& given) {
  PageTable table;
  table.title = text_at(given, "title");
  table.note = text_at(given, "legend");
  for (const Json& head : list_at(given, "columns")) {
    table.heads.push_back(
        {head.is_string() ? head.get<std::string>() : head.dump(), ""});
  }
  for (const Json& row : list_at(given, "rows")) {
    std::vector<TableCell> cells;
    if (row.is_array()) {
      for (const Json& value : row) cells.push_back(study_cell(value));
    } else if (row.is_object()) {
      for (const TableHead& head : table.heads) {
        cells.push_back(study_cell(row.value(head.title, Json())));
      }
    }
    cells.resize(table.heads.size(), text_cell("-"));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

Section plan_section(const std::string& text) {
  try {
    return section_of(text);
  } catch (const std::exception&) {
    return {};
  }
}

Page plan_page(const std::string& name, const std::string& text) {
  Page page;
  page.title = "Plan " + name;
  page.subtitle = "What travels together, how, and how dense";
  page.sections.push_back(section_of(text));
  Section next = titled("What to do next");
  next.points = {
      "What each bucket takes, and what another way would: sluice plan explain "
      "PLAN --profile profile.json --net 50us,1Gbit --workers 16",
      "Train by it: sluice train --plan PLAN. A run by --plan auto writes its "
      "own plan.json, and says above why it decided so."};
  page.sections.push_back(next);
  return page;
}

Page study_page(const std::string& name, const Json& study) {
  Page page;
  const std::string kind = text_at(study, "kind");
  page.title = text_at(study, "title");
  if (page.title.empty()) {
    page.title = kind.empty() ? "Study" : "Study of " + kind;
  }
  page.subtitle = text_at(study, "subtitle");
  if (page.subtitle.empty()) page.subtitle = name;
  Section curves = titled("Curves");
  for (StudyFigure& f : study_figures(study, page)) {
    Picture picture;
    picture.title = f.panel.title;
    picture.x = f.x;
    picture.y = f.y;
    if (!f.told) picture.y.log = wants_log(f.panel);
    picture.panels = {f.panel};
    picture.panels[0].title.clear();
    picture.width = 460;
    picture.panel_height = 215;
    picture.in_page = true;
    curves.figures.push_back({f.panel.title, "", draw_plot(picture), false});
  }
  Section tables = titled("Tables");
  for (const Json& given : list_at(study, "tables")) {
    if (!given.is_object() || tables.tables.size() == kMostTables) continue;
    tables.tables.push_back(study_table(given));
  }
  if (curves.empty() && tables.empty()) {
    page.notes.push_back("study.json has neither series nor tables");
  }
  page.sections = {curves, tables};
  return page;
}

}  // namespace sluice
