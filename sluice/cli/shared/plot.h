#pragma once

#include <string>
#include <vector>

// Line charts as SVG.

namespace sluice {

struct Curve {
  std::string name;  // curves of the same name look the same in all panels
  std::vector<double> x;
  std::vector<double> y;
};

// A chart of its own; panels stand side by side with the same scales.
struct Panel {
  std::string title;
  std::vector<Curve> curves;
};

struct Axis {
  std::string label;
  bool log = false;  // then what is not above 0 is left out
  // The share of the values at either end that may lie outside, so that a few
  // do not make the rest small.
  double cut_low = 0;
  double cut_high = 0;
};

// The picture as text. The first name in the panels is black, the others have
// colours and dashes that differ. Points that are not finite are left out; a
// panel may be empty.
std::string draw_plot(const std::string& title,
                      const std::vector<Panel>& panels, const Axis& x,
                      const Axis& y);

// Where to write numbers along an axis from `low` to `high`: round values,
// about `count` of them; for a logarithmic one over more than a decade 1, 2 and
// 5 times powers of ten.
std::vector<double> ticks(double low, double high, bool log, int count);

// Each value as the mean of those within `reach` of it.
std::vector<double> smooth(const std::vector<double>& values,
                           std::size_t reach);

}  // namespace sluice
