#include "sluice/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace sluice {
namespace {

constexpr std::size_t kMostLines = 30;  // of one figure, most of them grey
constexpr std::size_t kMostParts = 6;   // figures of one kind
constexpr std::size_t kManyPoints = 240;
constexpr std::size_t kFewPoints = 60;  // of lines that are grey
constexpr double kWidth = 460;
constexpr double kHeight = 215;

using Window = RunRecord::Window;

Curve by_step(const RunRecord& run, double Window::*value, double scale) {
  Curve curve;
  for (const Window& w : run.windows) {
    curve.x.push_back(w.step);
    curve.y.push_back(scale * w.*value);
  }
  return curve;
}

using Make = std::function<Curve(const RunRecord&)>;

// What is drawn, and how.
struct Wanted {
  std::string title;
  std::string note;
  Make make;
  Axis x;
  Axis y;
  std::optional<Mark> mark;
  bool smoothed = false;
};

Curve line_of(const RunGroup& group, const Wanted& wanted) {
  std::vector<Curve> curves;
  for (const RunRecord* run : group.runs) curves.push_back(wanted.make(*run));
  Curve curve = mean_of(curves);
  if (wanted.smoothed) curve.y = smooth(curve.y, curve.y.size() / 60);
  return curve;
}

std::vector<std::string> parts_of(const std::vector<RunGroup>& groups) {
  std::vector<std::string> parts;
  for (const RunGroup& g : groups) {
    const bool known =
        std::find(parts.begin(), parts.end(), g.part) != parts.end();
    if (!g.part.empty() && !known) parts.push_back(g.part);
  }
  return parts;
}

Panel panel_of(const std::vector<RunGroup>& groups, const std::string& part,
               const Wanted& wanted) {
  Panel panel;
  for (const RunGroup& group : groups) {
    if (!part.empty() && !group.part.empty() && group.part != part) continue;
    if (panel.curves.size() == kMostLines) break;
    const bool grey = panel.curves.size() >= kColouredLines;
    Curve curve =
        thinned(line_of(group, wanted), grey ? kFewPoints : kManyPoints);
    const bool any = std::any_of(curve.y.begin(), curve.y.end(),
                                 [&](double y) { return shows(y, wanted.y); });
    if (!any) continue;
    curve.name = part.empty() ? group.name() : group.method;
    panel.curves.push_back(std::move(curve));
  }
  return panel;
}

std::string draw(const Wanted& wanted, Panel panel) {
  Picture picture;
  picture.title = wanted.title;
  picture.x = wanted.x;
  picture.y = wanted.y;
  picture.mark = wanted.mark;
  picture.panels = {std::move(panel)};
  picture.width = kWidth;
  picture.panel_height = kHeight;
  picture.in_page = true;
  return draw_plot(picture);
}

// One figure, or one per part where it would have too many lines.
void add(std::vector<Figure>& figures, const std::vector<RunGroup>& groups,
         Wanted wanted, bool by_time = false) {
  std::vector<std::string> parts = parts_of(groups);
  if (groups.size() <= kColouredLines || parts.size() < 2) parts = {""};
  if (parts.size() > kMostParts) parts.resize(kMostParts);
  std::vector<Panel> panels;
  for (const std::string& part : parts) {
    panels.push_back(panel_of(groups, part, wanted));
  }
  if (by_time) wanted.x.log = ends_differ(panels);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (panels[i].curves.empty()) continue;
    const std::string of = parts[i].empty() ? "" : ", " + parts[i];
    figures.push_back(
        {wanted.title + of, wanted.note, draw(wanted, panels[i]), false});
  }
}

Figure figure_of_one(const RunRecord& run, const Wanted& wanted,
                     const std::vector<std::pair<std::string, Make>>& lines) {
  Panel panel;
  for (const auto& [name, make] : lines) {
    Curve curve = thinned(make(run), kManyPoints);
    curve.name = name;
    if (!curve.y.empty()) panel.curves.push_back(std::move(curve));
  }
  return {wanted.title, wanted.note, draw(wanted, panel), false};
}

Make window(double Window::*value, double scale = 1) {
  return [=](const RunRecord& run) { return by_step(run, value, scale); };
}

Curve waiting_share(const RunRecord& run) {
  Curve curve;
  for (const Window& w : run.windows) {
    curve.x.push_back(w.step);
    curve.y.push_back(w.step_s > 0 ? 100 * w.exposed_s / w.step_s : NAN);
  }
  return curve;
}

bool is_one_run(const std::vector<RunGroup>& groups) {
  return groups.size() == 1 && groups[0].runs.size() == 1;
}

const Axis kSteps = {.label = "steps"};
const Axis kSeconds = {.label = "seconds in training steps"};

}  // namespace

Curve loss_by_step(const RunRecord& run) {
  Curve curve;
  for (const auto& p : run.losses) {
    curve.x.push_back(p.step);
    curve.y.push_back(p.loss);
  }
  return curve;
}

Curve loss_by_time(const RunRecord& run) {
  Curve curve;
  for (const auto& p : run.losses) {
    curve.x.push_back(p.seconds);
    curve.y.push_back(p.loss);
  }
  return curve;
}

Curve score_by_step(const RunRecord& run) {
  Curve curve;
  for (const auto& p : run.evaluations) {
    curve.x.push_back(p.step);
    curve.y.push_back(run.kind->shown(p.score));
  }
  return curve;
}

Curve score_by_time(const RunRecord& run) {
  Curve curve;
  for (const auto& p : run.evaluations) {
    curve.x.push_back(p.seconds);
    curve.y.push_back(run.kind->shown(p.score));
  }
  return curve;
}

Curve mean_of(const std::vector<Curve>& curves) {
  Curve mean;
  std::size_t count = curves[0].x.size();
  for (const Curve& c : curves) count = std::min(count, c.x.size());
  const auto n = static_cast<double>(curves.size());
  for (std::size_t i = 0; i < count; ++i) {
    double x = 0;
    double y = 0;
    for (const Curve& c : curves) {
      x += c.x[i];
      y += c.y[i];
    }
    mean.x.push_back(x / n);
    mean.y.push_back(y / n);
  }
  return mean;
}

Curve thinned(const Curve& curve, std::size_t most) {
  const std::size_t n = std::min(curve.x.size(), curve.y.size());
  if (n <= most || most < 4) return curve;
  Curve out{curve.name, {}, {}};
  const std::size_t parts = most / 2;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t begin = p * n / parts;
    const std::size_t end = (p + 1) * n / parts;
    std::size_t low = begin;
    std::size_t high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (curve.y[i] < curve.y[low]) low = i;
      if (curve.y[i] > curve.y[high]) high = i;
    }
    std::vector<std::size_t> kept = {low, high};
    // A line keeps its ends, or it would be shorter.
    if (p == 0) kept.push_back(0);
    if (p + 1 == parts) kept.push_back(n - 1);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t i : kept) {
      out.x.push_back(curve.x[i]);
      out.y.push_back(curve.y[i]);
    }
  }
  return out;
}

bool ends_differ(const std::vector<Panel>& panels) {
  double shortest = 0;
  double longest = 0;
  for (const Panel& panel : panels) {
    for (const Curve& c : panel.curves) {
      if (c.x.empty()) continue;
      shortest = shortest == 0 ? c.x.back() : std::min(shortest, c.x.back());
      longest = std::max(longest, c.x.back());
    }
  }
  return longest > 5 * shortest;
}

std::vector<Figure> learning_figures(const std::vector<RunGroup>& groups,
                                     const Shown& shown) {
  const ScoreKind& kind = *shown.kind;
  const std::string label(kind.label);
  const Axis score = {.label = "test " + label + (kind.percent ? ", %" : ""),
                      .log = !kind.percent,
                      .cut_low = kind.up ? 0.03 : 0};
  const Axis loss = {.label = "training loss", .log = true};
  std::optional<Mark> mark;
  if (shown.target) {
    mark = {kind.shown(*shown.target), "target " + kind.text(*shown.target)};
  }
  std::vector<Figure> figures;
  add(figures, groups,
      {"Test " + label + " by time", "", score_by_time, kSeconds, score, mark},
      true);
  add(figures, groups,
      {"Test " + label + " by steps", "", score_by_step, kSteps, score, mark});
  add(figures, groups,
      {"Training loss by time", "smoothed a little", loss_by_time, kSeconds,
       loss, std::nullopt, true},
      true);
  add(figures, groups,
      {"Training loss by steps", "smoothed a little", loss_by_step, kSteps,
       loss, std::nullopt, true});
  return figures;
}

std::vector<Figure> traffic_figures(const std::vector<RunGroup>& groups) {
  std::vector<Figure> figures;
  add(figures, groups,
      {"Sent by a worker per step",
       "payload, headers and the vote",
       window(&Window::bytes_per_step, 1e-3),
       kSteps,
       {.label = "kB per step", .log = true},
       std::nullopt});
  const Axis density = {.label = "% of the gradient", .log = true};
  const std::string counts =
      "dense tensors count in full, so what is sent lies above what is asked";
  if (is_one_run(groups) && !groups[0].runs[0]->windows.empty()) {
    figures.push_back(figure_of_one(
        *groups[0].runs[0],
        {"Density", counts, nullptr, kSteps, density, std::nullopt},
        {{"sent", window(&Window::density, 100)},
         {"asked for", window(&Window::target_density, 100)}}));
  } else {
    add(figures, groups,
        {"Density sent", counts, window(&Window::density, 100), kSteps, density,
         std::nullopt});
  }
  add(figures, groups,
      {"k\u0302 / k",
       "entries selected over the budget, of sparse tensors; 1 is exact",
       window(&Window::k_hat_over_k),
       kSteps,
       {.label = "k\u0302 / k"},
       Mark{1, ""}});
  return figures;
}

std::vector<Figure> time_figures(const std::vector<RunGroup>& groups) {
  std::vector<Figure> figures;
  if (is_one_run(groups) && !groups[0].runs[0]->windows.empty()) {
    figures.push_back(figure_of_one(
        *groups[0].runs[0],
        {"A step",
         "select and exchange run beside backward; waiting is what backward "
         "did not hide",
         nullptr,
         kSteps,
         {.label = "ms", .log = true, .cut_high = 0.01},
         std::nullopt},
        {{"whole step", window(&Window::step_s, 1e3)},
         {"waiting", window(&Window::exposed_s, 1e3)},
         {"select", window(&Window::select_s, 1e3)},
         {"exchange", window(&Window::wire_s, 1e3)}}));
  } else {
    add(figures, groups,
        {"Time of a step",
         "",
         window(&Window::step_s, 1e3),
         kSteps,
         {.label = "ms per step", .log = true, .cut_high = 0.01},
         std::nullopt});
  }
  add(figures, groups,
      {"Share of a step that waits",
       "the most that a faster network or selection could gain",
       waiting_share,
       kSteps,
       {.label = "% of the step", .from_zero = true},
       std::nullopt});
  return figures;
}

}  // namespace sluice
