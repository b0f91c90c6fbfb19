#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sluice/report/axis.h"

// Line charts as SVG.

namespace sluice {

struct Curve {
  std::string name;  // a method's gives its colour (see Palette)
  std::vector<double> x;
  std::vector<double> y;
};

// A chart of its own; all panels of a picture have the same scales.
struct Panel {
  std::string title;
  std::vector<Curve> curves;
};

// A horizontal line, as of a target.
struct Mark {
  double y = 0;
  std::string label;
};

struct Picture {
  std::string title;
  std::string subtitle;  // network, workers, seeds, where they are known
  std::vector<Panel> panels;
  Axis x;
  Axis y;
  std::optional<Mark> mark;
  double panel_width = 460;
  double panel_height = 320;
  std::size_t columns = 3;  // panels in a row
  // Of the whole picture, where panels have what is left of it; 0: they have
  // panel_width.
  double width = 0;
  // As part of a page: without title, subtitle, paper and dark colours, which
  // the page has.
  bool in_page = false;
};

// So many names have colours, the first ones; lines of others are grey.
inline constexpr std::size_t kColouredLines = 7;

// The picture as text. Names stand beside their lines where they fit, the
// others in a legend. Curves of one colour differ by their dashes. Points that
// are not finite are left out; a panel may be empty.
std::string draw_plot(const Picture& picture);
std::string draw_plot(const std::string& title,
                      const std::vector<Panel>& panels, const Axis& x,
                      const Axis& y);

// Each value as the mean of those within `reach` of it.
std::vector<double> smooth(const std::vector<double>& values,
                           std::size_t reach);

}  // namespace sluice
