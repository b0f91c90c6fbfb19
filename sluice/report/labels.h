#pragma once

#include <optional>
#include <string>
#include <vector>

// Names beside the lines of a chart, where they cover nothing.

namespace sluice {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  bool has(const PlotPoint& p) const {
    return p.x >= left && p.x <= right && p.y >= top && p.y <= bottom;
  }
  bool meets(const PlotBox& other) const {
    return left < other.right && other.left < right && top < other.bottom &&
           other.top < bottom;
  }
};

// A character of small text, roughly.
inline constexpr double kLetterWidth = 6.4;

struct PlotLine {
  std::vector<PlotPoint> points;  // in the picture; y grows downwards
  std::string label;              // empty: none is wanted
};

struct Placed {
  PlotPoint at;
  const char* anchor = "start";  // of the text
};

// For each line a place for its label: beside its end if possible, else along
// it. None lies outside of `room`, on another or on a line; nothing if there is
// no such place.
std::vector<std::optional<Placed>> place_labels(
    const std::vector<PlotLine>& lines, const PlotBox& room);

}  // namespace sluice
