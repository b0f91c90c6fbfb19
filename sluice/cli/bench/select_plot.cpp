#include "sluice/cli/bench/select_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sluice/report/plot.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

void add_point(Panel& panel, const std::string& name, double x, double y) {
  auto at = std::find_if(panel.curves.begin(), panel.curves.end(),
                         [&](const Curve& c) { return c.name == name; });
  if (at == panel.curves.end()) {
    at = panel.curves.insert(panel.curves.end(), Curve{name, {}, {}});
  }
  // The floor comes with every sparsifier.
  if (std::find(at->x.begin(), at->x.end(), x) != at->x.end()) return;
  at->x.push_back(x);
  at->y.push_back(y);
}

// What the lines of a chart have in common.
std::string title_of(const Json& row, bool by_density) {
  const auto model = row.at("model").get<std::string>();
  const std::string what =
      !by_density ? fmt::format("density {:g}", row.at("density").get<double>())
      : !model.empty()
          ? model
          : fmt::format("{} elements", row.at("n").get<std::uint64_t>());
  return fmt::format("{}, {} threads, {}, {}",
                     row.at("device").get<std::string>(),
                     row.at("threads").get<std::uint64_t>(),
                     row.at("data").get<std::string>(), what);
}

}  // namespace

std::string draw_selects(const std::vector<Json>& rows) {
  std::set<double> densities;
  for (const Json& row : rows)
    densities.insert(row.at("density").get<double>());
  const bool by_density = densities.size() > 1;
  std::vector<Panel> panels;
  for (const Json& row : rows) {
    if (row.at("phase") != "steady") continue;
    const std::string title = title_of(row, by_density);
    auto at = std::find_if(panels.begin(), panels.end(),
                           [&](const Panel& p) { return p.title == title; });
    if (at == panels.end()) at = panels.insert(panels.end(), {title, {}});
    const double x = row.at(by_density ? "density" : "n").get<double>();
    add_point(*at, "floor", x, 1e3 * row.at("floor_seconds").get<double>());
    add_point(*at, row.at("sparsifier").get<std::string>(), x,
              1e3 * row.at("seconds").get<double>());
  }
  for (Panel& panel : panels) {
    for (Curve& c : panel.curves) {
      std::vector<std::pair<double, double>> points;
      for (std::size_t i = 0; i < c.x.size(); ++i) {
        points.emplace_back(c.x[i], c.y[i]);
      }
      std::sort(points.begin(), points.end());
      for (std::size_t i = 0; i < points.size(); ++i) {
        std::tie(c.x[i], c.y[i]) = points[i];
      }
    }
  }
  return draw_plot(
      "time of a selection", panels,
      {.label = by_density ? "density (log)" : "elements (log)", .log = true},
      {.label = "ms (log)", .log = true});
}

}  // namespace sluice
