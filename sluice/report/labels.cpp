#include "sluice/report/labels.h"

#include <algorithm>
#include <cmath>

#include "sluice/report/markup.h"

namespace sluice {
namespace {

constexpr double kAbove = 10;  // of the base line
constexpr double kBelow = 4;
constexpr double kBeside = 6;
constexpr double kRow = 14;
constexpr double kNear = 12;  // ends so close are at one place

// The line as points so close that a label cannot slip between them.
std::vector<PlotPoint> fine_points(const PlotLine& line) {
  std::vector<PlotPoint> fine;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const PlotPoint& b = line.points[i];
    const PlotPoint& a = i == 0 ? b : line.points[i - 1];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const int steps = std::clamp(static_cast<int>(length / 4), 1, 1000);
    for (int s = 1; s <= steps; ++s) {
      const double share = static_cast<double>(s) / steps;
      fine.push_back({a.x + share * (b.x - a.x), a.y + share * (b.y - a.y)});
    }
  }
  return fine;
}

PlotBox box_of(const Placed& placed, double width) {
  const double left = placed.anchor == std::string("start")
                          ? placed.at.x
                          : placed.at.x - width / 2;
  return {left, placed.at.y - kAbove, left + width, placed.at.y + kBelow};
}

// In the order in which they are liked.
std::vector<Placed> candidates(const PlotLine& line) {
  std::vector<Placed> all;
  const PlotPoint end = line.points.back();
  for (const double away : {0, 8, -8, 14, -14}) {
    all.push_back({{end.x + kBeside, end.y + kBelow + away}, "start"});
  }
  const std::size_t n = line.points.size();
  for (const double share : {0.85, 0.7, 0.5, 0.3}) {
    const PlotPoint at = line.points[static_cast<std::size_t>(
        share * static_cast<double>(n - 1))];
    for (const double away : {-7.0, 15.0}) {
      all.push_back({{at.x, at.y + away}, "middle"});
    }
  }
  return all;
}

double width_of(const std::string& label) {
  return kLetterWidth * static_cast<double>(text_length(label)) + 2;
}

class Placer {
 public:
  Placer(const std::vector<PlotLine>& lines, const PlotBox& room)
      : room_(room) {
    for (const PlotLine& line : lines) fine_.push_back(fine_points(line));
  }

  // The first candidate that is free.
  std::optional<Placed> place(const PlotLine& line,
                              const std::vector<Placed>& wanted) {
    for (const Placed& candidate : wanted) {
      const PlotBox box = box_of(candidate, width_of(line.label));
      if (!is_free(box)) continue;
      taken_.push_back(box);
      return candidate;
    }
    return std::nullopt;
  }

 private:
  bool is_free(const PlotBox& box) const {
    if (box.left < room_.left || box.right > room_.right ||
        box.top < room_.top || box.bottom > room_.bottom) {
      return false;
    }
    const auto meets = [&](const PlotBox& other) { return box.meets(other); };
    if (std::any_of(taken_.begin(), taken_.end(), meets)) return false;
    return std::none_of(fine_.begin(), fine_.end(), [&](const auto& points) {
      return std::any_of(points.begin(), points.end(),
                         [&](const PlotPoint& p) { return box.has(p); });
    });
  }

  PlotBox room_;
  std::vector<std::vector<PlotPoint>> fine_;
  std::vector<PlotBox> taken_;
};

bool wants_label(const PlotLine& line) {
  return !line.label.empty() && !line.points.empty();
}

// Lines that end at the right side by side, from the top: their labels keep
// that order, or nobody could tell whose is whose.
std::vector<std::size_t> ends_at_right(const std::vector<PlotLine>& lines) {
  double right = 0;
  for (const PlotLine& line : lines) {
    if (wants_label(line)) right = std::max(right, line.points.back().x);
  }
  std::vector<std::size_t> group;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (wants_label(lines[i]) && lines[i].points.back().x > right - kNear) {
      group.push_back(i);
    }
  }
  std::stable_sort(group.begin(), group.end(),
                   [&](std::size_t a, std::size_t b) {
                     return lines[a].points.back().y < lines[b].points.back().y;
                   });
  return group;
}

// Heights of base lines that are at least a row apart and as near to where the
// lines end as that allows; outside of `room` if there are too many.
std::vector<double> stack(const std::vector<PlotLine>& lines,
                          const std::vector<std::size_t>& group,
                          const PlotBox& room) {
  std::vector<double> heights;
  for (const std::size_t i : group) {
    double y = std::max(lines[i].points.back().y + kBelow, room.top + kAbove);
    if (!heights.empty()) y = std::max(y, heights.back() + kRow);
    heights.push_back(y);
  }
  double limit = room.bottom - kBelow;
  for (std::size_t i = heights.size(); i-- > 0;) {
    heights[i] = std::min(heights[i], limit);
    limit = heights[i] - kRow;
  }
  return heights;
}

}  // namespace

std::vector<std::optional<Placed>> place_labels(
    const std::vector<PlotLine>& lines, const PlotBox& room) {
  Placer placer(lines, room);
  std::vector<std::optional<Placed>> placed(lines.size());
  const std::vector<std::size_t> group = ends_at_right(lines);
  const std::vector<double> heights = stack(lines, group, room);
  double right = 0;
  for (const std::size_t i : group) {
    right = std::max(right, lines[i].points.back().x);
  }
  for (std::size_t g = 0; g < group.size(); ++g) {
    const PlotLine& line = lines[group[g]];
    placed[group[g]] =
        placer.place(line, {{{right + kBeside, heights[g]}, "start"}});
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool done = std::find(group.begin(), group.end(), i) != group.end();
    if (!done && wants_label(lines[i])) {
      placed[i] = placer.place(lines[i], candidates(lines[i]));
    }
  }
  return placed;
}

}  // namespace sluice
