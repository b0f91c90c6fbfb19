#include "sluice/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sluice/report/labels.h"
#include "sluice/report/markup.h"
#include "sluice/report/palette.h"

namespace sluice {
namespace {

constexpr double kLeft = 62;
constexpr double kUnder = 50;  // a panel: numbers and what they are
constexpr double kRow = 18;    // of the legend
constexpr double kLegendLine = 22;
constexpr double kMostLabel = 150;
constexpr std::size_t kLongestName = 26;
constexpr const char* kDashes[] = {"", "6 3", "2 2", "9 3 2 3"};

// How a name looks in all panels.
struct Look {
  std::string name;
  std::size_t colour = 0;
  bool grey = false;
  std::string dash;
};

std::vector<Look> looks_of(const std::vector<Panel>& panels) {
  std::vector<std::string> names;
  for (const Panel& panel : panels) {
    for (const Curve& c : panel.curves) {
      if (std::find(names.begin(), names.end(), c.name) == names.end()) {
        names.push_back(c.name);
      }
    }
  }
  const Palette& palette = Palette::standard();
  const std::size_t coloured = std::min(names.size(), kColouredLines);
  const auto colours = palette.assign(
      {names.begin(), names.begin() + static_cast<long>(coloured)});
  std::vector<std::size_t> used(palette.size(), 0);
  std::vector<Look> looks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Look look;
    look.name = names[i];
    look.grey = i >= coloured;
    if (!look.grey) {
      look.colour = colours[i];
      look.dash = kDashes[used[look.colour]++ % std::size(kDashes)];
    }
    looks.push_back(look);
  }
  return looks;
}

std::string colour_of(const Look& look) {
  const Palette& palette = Palette::standard();
  if (look.grey) {
    return fmt::format("class=\"muted\" color=\"{}\" opacity=\"0.55\"",
                       palette.muted().light);
  }
  return fmt::format("class=\"c{}\" color=\"{}\"", look.colour,
                     palette.colour(look.colour).light);
}

std::string dash_of(const Look& look) {
  if (look.dash.empty()) return {};
  return fmt::format(" stroke-dasharray=\"{}\"", look.dash);
}

std::vector<double> all_values(const Picture& p,
                               std::vector<double> Curve::*part) {
  std::vector<double> all;
  for (const Panel& panel : p.panels) {
    for (const Curve& c : panel.curves) {
      all.insert(all.end(), (c.*part).begin(), (c.*part).end());
    }
  }
  return all;
}

std::vector<double> y_values(const Picture& p) {
  std::vector<double> all = all_values(p, &Curve::y);
  if (p.mark) all.push_back(p.mark->y);
  return all;
}

std::string axis_label(const Axis& axis) {
  const bool said = axis.label.ends_with("(log)");
  return axis.label + (axis.log && !said ? " (log)" : "");
}

double width_of(const std::string& name) {
  return kLetterWidth *
         static_cast<double>(text_length(shorten(name, kLongestName)));
}

// Room to the right of a panel, for names.
double room_beside(const Picture& p, const std::vector<Look>& looks) {
  double room = 14;
  for (const Look& look : looks) {
    if (look.grey || looks.size() < 2) continue;
    room = std::clamp(width_of(look.name) + 14, room, kMostLabel);
  }
  if (p.mark) room = std::clamp(width_of(p.mark->label) + 14, room, kMostLabel);
  return room;
}

Picture fitted(Picture p, double beside) {
  if (p.width <= 0) return p;
  const auto columns = static_cast<double>(
      std::clamp<std::size_t>(p.panels.size(), 1, p.columns));
  p.panel_width = std::max(80.0, (p.width - kLeft - 2) / columns - beside);
  return p;
}

class Drawing {
 public:
  explicit Drawing(const Picture& picture)
      : looks_(looks_of(picture.panels)),
        beside_(room_beside(picture, looks_)),
        p_(fitted(picture, beside_)),
        x_(all_values(p_, &Curve::x), p_.x, p_.panel_width),
        y_(y_values(p_), p_.y, p_.panel_height) {}

  std::string draw();

 private:
  struct Layout {
    std::size_t columns = 1;
    double width = 0;
    double height = 0;
    double legend = 0;  // tops
    double top = 0;
    double row = 0;  // from panel to panel
  };

  void text(double x, double y, const char* anchor, const std::string& style,
            const std::string& words) {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x,
        y, anchor, style.empty() ? "" : " " + style, escape_markup(words));
  }
  void line(double x1, double y1, double x2, double y2,
            const std::string& style) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"currentColor\" {}/>\n",
        x1, y1, x2, y2, style);
  }
  Look& look_of(const std::string& name) {
    return *std::find_if(looks_.begin(), looks_.end(),
                         [&](const Look& l) { return l.name == name; });
  }
  std::vector<PlotPoint> points_of(const Curve& curve) const;
  std::vector<PlotLine> lines_of(const Panel& panel);
  void place_names();
  Layout lay_out();
  void begin(const Layout& at);
  void draw_panel(std::size_t i, double left, double top, bool first);
  void draw_axes(double left, double top, bool first);
  void draw_curve(const Curve& curve);
  void draw_mark();
  void draw_names(std::size_t i);
  double legend(double left, double top, double right, bool draw);
  void draw_key(const Look& look, double x, double y);

  std::vector<Look> looks_;
  double beside_;
  Picture p_;
  Scale x_;
  Scale y_;
  std::vector<std::vector<std::optional<Placed>>> labels_;  // by curve
  bool needs_legend_ = false;  // a name has no place beside its line
  std::string out_;
};

std::vector<PlotPoint> Drawing::points_of(const Curve& curve) const {
  std::vector<PlotPoint> points;
  for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
    if (!shows(curve.x[i], p_.x) || !shows(curve.y[i], p_.y)) continue;
    points.push_back({x_(curve.x[i]), p_.panel_height - y_(curve.y[i])});
  }
  return points;
}

std::vector<PlotLine> Drawing::lines_of(const Panel& panel) {
  std::vector<PlotLine> lines;
  for (const Curve& c : panel.curves) {
    const bool named = !look_of(c.name).grey && looks_.size() > 1;
    lines.push_back({points_of(c), named ? shorten(c.name, kLongestName) : ""});
  }
  // The last one, if there is a mark.
  if (p_.mark && shows(p_.mark->y, p_.y)) {
    const double y = p_.panel_height - y_(p_.mark->y);
    lines.push_back({{{0, y}, {p_.panel_width, y}}, p_.mark->label});
  }
  return lines;
}

void Drawing::place_names() {
  const PlotBox room{2, 2, p_.panel_width + beside_, p_.panel_height + 4};
  for (const Panel& panel : p_.panels) {
    labels_.push_back(place_labels(lines_of(panel), room));
    for (std::size_t i = 0; i < panel.curves.size(); ++i) {
      const bool drawn = !points_of(panel.curves[i]).empty();
      const bool named = labels_.back()[i] || looks_.size() < 2;
      if (drawn && !named && !look_of(panel.curves[i].name).grey) {
        needs_legend_ = true;
      }
    }
  }
}

void Drawing::draw_axes(double left, double top, bool first) {
  const Palette& palette = Palette::standard();
  const std::string grid =
      fmt::format("class=\"grid\" color=\"{}\"", palette.grid().light);
  const std::string muted =
      fmt::format("class=\"muted\" color=\"{}\"", palette.muted().light);
  const double bottom = top + p_.panel_height;
  for (const double tick : x_.ticks(6)) {
    const double x = left + x_(tick);
    line(x, top, x, bottom, grid);
    text(x, bottom + 16, "middle", muted, fmt::format("{:g}", tick));
  }
  for (const double tick : y_.ticks(5)) {
    const double y = bottom - y_(tick);
    line(left, y, left + p_.panel_width, y, grid);
    if (first) text(left - 7, y + 4, "end", muted, fmt::format("{:g}", tick));
  }
  line(left, bottom, left + p_.panel_width, bottom, muted);
  text(left + p_.panel_width / 2, bottom + 35, "middle", "", axis_label(p_.x));
  if (!first) return;
  const double middle = top + p_.panel_height / 2;
  text(14, middle, "middle",
       fmt::format("transform=\"rotate(-90 14 {:.1f})\"", middle),
       axis_label(p_.y));
}

void Drawing::draw_curve(const Curve& curve) {
  const std::vector<PlotPoint> points = points_of(curve);
  if (points.empty()) return;
  const Look& look = look_of(curve.name);
  const std::string title = escape_markup(curve.name);
  if (points.size() == 1) {
    out_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"currentColor\" "
        "{}><title>{}</title></circle>\n",
        points[0].x, points[0].y, colour_of(look), title);
    return;
  }
  std::string path;
  for (const PlotPoint& p : points)
    path += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  path.pop_back();
  out_ += fmt::format(
      "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\" {}{} points=\"{}\"><title>{}</title>"
      "</polyline>\n",
      look.grey ? 1.2 : 2.2, colour_of(look), dash_of(look), path, title);
}

void Drawing::draw_mark() {
  if (!p_.mark || !shows(p_.mark->y, p_.y)) return;
  const std::string muted = fmt::format("class=\"muted\" color=\"{}\"",
                                        Palette::standard().muted().light);
  const double y = p_.panel_height - y_(p_.mark->y);
  line(0, y, p_.panel_width, y, muted + " stroke-dasharray=\"3 4\"");
}

void Drawing::draw_names(std::size_t i) {
  const Panel& panel = p_.panels[i];
  for (std::size_t c = 0; c < panel.curves.size(); ++c) {
    const auto& placed = labels_[i][c];
    const Look& look = look_of(panel.curves[c].name);
    if (!placed || look.grey) continue;
    text(placed->at.x, placed->at.y, placed->anchor,
         colour_of(look) + " font-weight=\"600\"",
         shorten(look.name, kLongestName));
  }
  if (labels_[i].size() == panel.curves.size() || p_.mark->label.empty())
    return;
  const std::string muted = fmt::format("class=\"muted\" color=\"{}\"",
                                        Palette::standard().muted().light);
  const double y = p_.panel_height - y_(p_.mark->y);
  // Where everything else is full, on the line.
  const Placed at = labels_[i].back().value_or(Placed{{5, y - 5}, "start"});
  text(at.at.x, at.at.y, at.anchor, muted, p_.mark->label);
}

void Drawing::draw_panel(std::size_t i, double left, double top, bool first) {
  const Panel& panel = p_.panels[i];
  draw_axes(left, top, first);
  if (!panel.title.empty()) {
    text(left, top - 9, "start", "font-weight=\"600\"", panel.title);
  }
  // An SVG within cuts off what lies outside, and needs no name to do so.
  out_ += fmt::format(
      "<svg x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">\n",
      left, top, p_.panel_width, p_.panel_height);
  draw_mark();
  // The first ones last, on top.
  for (auto it = panel.curves.rbegin(); it != panel.curves.rend(); ++it) {
    draw_curve(*it);
  }
  out_ += "</svg>\n";
  out_ +=
      fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", left, top);
  draw_names(i);
  out_ += "</g>\n";
}

void Drawing::draw_key(const Look& look, double x, double y) {
  line(
      x, y - 4, x + kLegendLine, y - 4,
      fmt::format("stroke-width=\"2.2\" {}{}", colour_of(look), dash_of(look)));
  text(x + kLegendLine + 6, y, "start", "", shorten(look.name, kLongestName));
}

// All names if one has no place beside its line, and how many are grey. Returns
// its height.
double Drawing::legend(double left, double top, double right, bool draw) {
  double x = left;
  double y = top;
  bool any = false;
  const auto put = [&](const Look& look) {
    const double width =
        kLegendLine + 24 +
        kLetterWidth *
            static_cast<double>(text_length(shorten(look.name, kLongestName)));
    if (any && x + width > right) {
      x = left;
      y += kRow;
    }
    any = true;
    if (draw) draw_key(look, x, y + 12);
    x += width;
  };
  std::size_t grey = 0;
  Look others;
  for (const Look& look : looks_) {
    if (looks_.size() < 2) break;
    if (look.grey) {
      ++grey;
      others = look;
    } else if (needs_legend_) {
      put(look);
    }
  }
  if (grey > 1) others.name = fmt::format("{} others", grey);
  if (grey > 0) put(others);
  return any ? y + kRow + 4 - top : 0;
}

// The paper and what stands above the panels.
void Drawing::begin(const Layout& at) {
  const Palette& palette = Palette::standard();
  out_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\" "
      "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n",
      at.width, at.height, escape_markup(p_.title));
  if (!p_.in_page) {
    out_ += fmt::format(
        "<style>@media (prefers-color-scheme:dark){{{}}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" class=\"paper\" color=\"{}\" "
        "fill=\"currentColor\"/>\n",
        palette.dark_css(), palette.paper().light);
  }
  out_ += fmt::format("<g class=\"ink\" color=\"{}\" fill=\"currentColor\">\n",
                      palette.ink().light);
  if (p_.in_page) return;
  text(kLeft, 24, "start", "font-size=\"15\" font-weight=\"700\"", p_.title);
  if (p_.subtitle.empty()) return;
  text(kLeft, 42, "start",
       fmt::format("class=\"muted\" color=\"{}\"", palette.muted().light),
       p_.subtitle);
}

Drawing::Layout Drawing::lay_out() {
  const bool titled =
      std::any_of(p_.panels.begin(), p_.panels.end(),
                  [](const Panel& p) { return !p.title.empty(); });
  const double title = titled ? 22 : 0;
  Layout at;
  at.columns = std::clamp<std::size_t>(p_.panels.size(), 1, p_.columns);
  const std::size_t rows = (p_.panels.size() + at.columns - 1) / at.columns;
  at.width =
      kLeft + static_cast<double>(at.columns) * (p_.panel_width + beside_) + 2;
  at.legend = p_.in_page ? 10 : p_.subtitle.empty() ? 36 : 54;
  at.top = at.legend + legend(kLeft, at.legend, at.width, false) + title;
  at.row = p_.panel_height + kUnder + title;
  at.height = at.top + static_cast<double>(rows) * at.row - title;
  return at;
}

std::string Drawing::draw() {
  place_names();
  const Layout at = lay_out();
  begin(at);
  legend(kLeft, at.legend, at.width, true);
  for (std::size_t i = 0; i < p_.panels.size(); ++i) {
    const auto column = static_cast<double>(i % at.columns);
    const auto row = static_cast<double>(i / at.columns);
    draw_panel(i, kLeft + column * (p_.panel_width + beside_),
               at.top + row * at.row, column == 0);
  }
  return out_ + "</g>\n</svg>\n";
}

}  // namespace

std::vector<double> smooth(const std::vector<double>& values,
                           std::size_t reach) {
  std::vector<double> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // As far to either side, or the ends would lean.
    const std::size_t r = std::min({reach, i, values.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - r; j <= i + r; ++j) sum += values[j];
    out.push_back(sum / static_cast<double>(2 * r + 1));
  }
  return out;
}

std::string draw_plot(const Picture& picture) {
  return Drawing(picture).draw();
}

std::string draw_plot(const std::string& title,
                      const std::vector<Panel>& panels, const Axis& x,
                      const Axis& y) {
  Picture picture;
  picture.title = title;
  picture.panels = panels;
  picture.x = x;
  picture.y = y;
  return draw_plot(picture);
}

}  // namespace sluice
