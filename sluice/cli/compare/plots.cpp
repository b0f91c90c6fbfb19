#include "sluice/cli/compare/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sluice/report/curves.h"

namespace sluice {
namespace {

std::vector<double> densities_of(const std::vector<Cell>& cells) {
  std::vector<double> densities;
  for (const Cell& cell : cells) {
    const bool known = std::find(densities.begin(), densities.end(),
                                 cell.density) != densities.end();
    if (!cell.fixed_density && !known) densities.push_back(cell.density);
  }
  if (densities.empty()) densities.push_back(1);
  return densities;
}

Panel make_panel(const std::vector<Cell>& cells,
                 const std::vector<RunRecord>& runs, double density,
                 Points points) {
  std::vector<std::string> methods;  // those asked for first have colours
  std::map<std::string, std::vector<Curve>> by_method;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool here = cells[i].fixed_density || cells[i].density == density;
    if (!runs[i].finished || !here) continue;
    auto& curves = by_method[cells[i].method];
    if (curves.empty()) methods.push_back(cells[i].method);
    curves.push_back(points(runs[i]));
  }
  Panel panel{fmt::format("density {:g} %", 100 * density), {}};
  for (const std::string& method : methods) {
    Curve curve = mean_of(by_method[method]);
    curve.name = method;
    panel.curves.push_back(curve);
  }
  return panel;
}

// "4 workers of batch 64, network 50us,1Gbit, mean of 3 seeds".
std::string describe_setting(const std::vector<Cell>& cells) {
  const auto& config = cells[0].config;
  std::set<std::int64_t> seeds;
  for (const Cell& cell : cells) seeds.insert(cell.seed);
  const std::string net = config.value("net", "");
  return fmt::format("{} workers of batch {}, {}, {}",
                     config.value("workers", 1), config.value("batch_size", 0),
                     net.empty() ? "this machine's network" : "network " + net,
                     seeds.size() == 1
                         ? fmt::format("seed {}", *seeds.begin())
                         : fmt::format("mean of {} seeds", seeds.size()));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> make_plots(
    const std::vector<Cell>& cells, const std::vector<RunRecord>& runs) {
  const auto panels_of = [&](Points points, bool is_loss) {
    std::vector<Panel> panels;
    for (const double density : densities_of(cells)) {
      panels.push_back(make_panel(cells, runs, density, points));
      if (!is_loss) continue;
      for (Curve& c : panels.back().curves) {
        c.y = smooth(c.y, c.y.size() / 60);
      }
    }
    return panels;
  };
  const std::string job =
      fmt::format("{} on {}", cells[0].config.at("model").get<std::string>(),
                  cells[0].config.at("dataset").get<std::string>());
  const auto by_time = panels_of(&loss_by_time, true);
  const ScoreKind& kind = *score_of(runs);
  const std::string label = std::string(kind.label);
  Picture picture;
  picture.subtitle = describe_setting(cells);
  const auto draw = [&](const std::string& what, std::vector<Panel> panels,
                        const Axis& x, const Axis& y) {
    picture.title = job + ": " + what;
    picture.panels = std::move(panels);
    picture.x = x;
    picture.y = y;
    return draw_plot(picture);
  };
  const Axis loss = {.label = "training loss", .log = true};
  const Axis time = {.label = "seconds in training steps",
                     .log = ends_differ(by_time)};
  const Axis score = {.label = "test " + label + (kind.percent ? ", %" : ""),
                      .log = !kind.percent,
                      .cut_low = kind.up ? 0.03 : 0};
  return {
      {"loss-steps.svg", draw("loss by steps", panels_of(&loss_by_step, true),
                              {.label = "steps"}, loss)},
      {"loss-time.svg", draw("loss by time", by_time, time, loss)},
      {std::string(kind.name) + "-time.svg",
       draw("test " + label + " by time", panels_of(&score_by_time, false),
            time, score)}};
}

}  // namespace sluice
