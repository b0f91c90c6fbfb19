#include "sluice/cli/shared/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace sluice {
namespace {

constexpr double kPanelWidth = 460;
constexpr double kPanelHeight = 320;
constexpr double kLeft = 64;
constexpr double kTop = 60;
constexpr double kGap = 26;
constexpr double kBottom = 50;
constexpr double kLegendRow = 18;
constexpr double kLegendLine = 30;
// A character of the legend, roughly.
constexpr double kLetter = 6.6;

// Paul Tol's "bright" and "muted" schemes less what is too pale for a line, by
// distance from each other; the first is for the baseline.
constexpr const char* kColours[] = {"#000000", "#4477aa", "#ee6677", "#228833",
                                    "#ccaa22", "#66ccee", "#aa3377", "#999999",
                                    "#332288", "#882255", "#44aa99"};
constexpr const char* kDashes[] = {"", "6 3", "2 2"};

struct Look {
  std::string colour;
  std::string dash;
};

Look look_of(std::size_t i) {
  if (i == 0) return {kColours[0], ""};
  constexpr std::size_t kOthers = std::size(kColours) - 1;
  return {kColours[1 + (i - 1) % kOthers],
          kDashes[(i - 1) / kOthers % std::size(kDashes)]};
}

std::string stroke(const Look& look) {
  return fmt::format("stroke=\"{}\"{}", look.colour,
                     look.dash.empty()
                         ? ""
                         : fmt::format(" stroke-dasharray=\"{}\"", look.dash));
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const std::string plain(1, c);
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : plain;
  }
  return out;
}

bool shows(double value, const Axis& axis) {
  return std::isfinite(value) && (!axis.log || value > 0);
}

// From values to positions along an axis that is `length` long.
class Scale {
 public:
  Scale(std::vector<double> values, const Axis& axis, double length)
      : log_(axis.log), length_(length) {
    std::erase_if(values, [&](double v) { return !shows(v, axis); });
    if (values.empty()) values = {1, 2};
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
      return values[static_cast<std::size_t>(
          share * static_cast<double>(values.size() - 1))];
    };
    low_ = at(axis.cut_low);
    high_ = at(1 - axis.cut_high);
    if (log_) {
      if (low_ == high_) low_ /= 2;
      const double room = std::pow(high_ / low_, 0.03);
      low_ /= room;
      high_ *= room;
    } else {
      if (low_ == high_) low_ -= std::max(std::abs(low_), 1.0) / 10;
      const double room = 0.03 * (high_ - low_);
      // Nothing that counts from 0 begins below it.
      low_ = low_ >= 0 ? std::max(0.0, low_ - room) : low_ - room;
      high_ += room;
    }
  }

  double low() const { return low_; }
  double high() const { return high_; }
  double operator()(double value) const {
    const double share = log_ ? std::log(value / low_) / std::log(high_ / low_)
                              : (value - low_) / (high_ - low_);
    return share * length_;
  }
  std::vector<double> ticks(int count) const {
    return sluice::ticks(low_, high_, log_, count);
  }

 private:
  bool log_;
  double length_;
  double low_ = 0;
  double high_ = 1;
};

std::vector<double> all_values(const std::vector<Panel>& panels,
                               std::vector<double> Curve::*part) {
  std::vector<double> all;
  for (const Panel& panel : panels) {
    for (const Curve& c : panel.curves) {
      all.insert(all.end(), (c.*part).begin(), (c.*part).end());
    }
  }
  return all;
}

std::vector<std::string> names_of(const std::vector<Panel>& panels) {
  std::vector<std::string> names;
  for (const Panel& panel : panels) {
    for (const Curve& c : panel.curves) {
      if (std::find(names.begin(), names.end(), c.name) == names.end()) {
        names.push_back(c.name);
      }
    }
  }
  return names;
}

class Drawing {
 public:
  Drawing(const std::vector<Panel>& panels, const Axis& x, const Axis& y)
      : panels_(panels),
        x_axis_(x),
        y_axis_(y),
        x_(all_values(panels, &Curve::x), x, kPanelWidth),
        y_(all_values(panels, &Curve::y), y, kPanelHeight),
        names_(names_of(panels)) {}

  std::string draw(const std::string& title);

 private:
  void text(double x, double y, const char* anchor, const std::string& style,
            const std::string& words) {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x,
        y, anchor, style.empty() ? "" : " " + style, escape(words));
  }
  void line(double x1, double y1, double x2, double y2,
            const std::string& style) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n",
        x1, y1, x2, y2, style);
  }
  void draw_panel(const Panel& panel, double left, bool first);
  void draw_axes(double left, bool first);
  void draw_curve(const Curve& curve, double left);
  void draw_legend(double left);

  const std::vector<Panel>& panels_;
  const Axis& x_axis_;
  const Axis& y_axis_;
  Scale x_;
  Scale y_;
  std::vector<std::string> names_;
  std::string out_;
};

void Drawing::draw_axes(double left, bool first) {
  const double bottom = kTop + kPanelHeight;
  for (const double tick : x_.ticks(6)) {
    const double x = left + x_(tick);
    line(x, kTop, x, bottom, "stroke=\"#e5e5e5\"");
    text(x, bottom + 16, "middle", "", fmt::format("{:g}", tick));
  }
  for (const double tick : y_.ticks(6)) {
    const double y = bottom - y_(tick);
    line(left, y, left + kPanelWidth, y, "stroke=\"#e5e5e5\"");
    if (first) text(left - 7, y + 4, "end", "", fmt::format("{:g}", tick));
  }
  out_ += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" "
      "stroke=\"#555\"/>\n",
      left, kTop, kPanelWidth, kPanelHeight);
  text(left + kPanelWidth / 2, bottom + 36, "middle", "", x_axis_.label);
  if (!first) return;
  const double middle = kTop + kPanelHeight / 2;
  text(16, middle, "middle",
       fmt::format("transform=\"rotate(-90 16 {:.1f})\"", middle),
       y_axis_.label);
}

void Drawing::draw_curve(const Curve& curve, double left) {
  const auto style = static_cast<std::size_t>(
      std::find(names_.begin(), names_.end(), curve.name) - names_.begin());
  std::string points;
  std::size_t count = 0;
  double x = 0;
  double y = 0;
  for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
    if (!shows(curve.x[i], x_axis_) || !shows(curve.y[i], y_axis_)) continue;
    x = left + x_(curve.x[i]);
    y = kTop + kPanelHeight - y_(curve.y[i]);
    points += fmt::format("{}{:.1f},{:.1f}", count++ == 0 ? "" : " ", x, y);
  }
  if (count == 0) return;
  if (count == 1) {
    out_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" "
        "fill=\"{}\"/>\n",
        x, y, look_of(style).colour);
    return;
  }
  out_ += fmt::format(
      "<polyline fill=\"none\" stroke-width=\"{}\" stroke-linejoin=\"round\" "
      "{} points=\"{}\"><title>{}</title></polyline>\n",
      style == 0 ? 2.2 : 1.5, stroke(look_of(style)), points,
      escape(curve.name));
}

void Drawing::draw_panel(const Panel& panel, double left, bool first) {
  draw_axes(left, first);
  text(left + kPanelWidth / 2, kTop - 9, "middle", "font-weight=\"bold\"",
       panel.title);
  const std::string clip = fmt::format("clip{:.0f}", left);
  out_ += fmt::format(
      "<clipPath id=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" "
      "height=\"{}\"/></clipPath>\n<g clip-path=\"url(#{})\">\n",
      clip, left, kTop, kPanelWidth, kPanelHeight, clip);
  // The baseline last, on top.
  for (auto it = panel.curves.rbegin(); it != panel.curves.rend(); ++it) {
    draw_curve(*it, left);
  }
  out_ += "</g>\n";
}

void Drawing::draw_legend(double left) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const double y = kTop + 10 + kLegendRow * static_cast<double>(i);
    line(left, y - 4, left + kLegendLine, y - 4,
         fmt::format("stroke-width=\"2.2\" {}", stroke(look_of(i))));
    text(left + kLegendLine + 8, y, "start", "", names_[i]);
  }
}

std::string Drawing::draw(const std::string& title) {
  std::size_t longest = 0;
  for (const std::string& n : names_) longest = std::max(longest, n.size());
  const double step = kPanelWidth + kGap;
  const double legend_left = kLeft + static_cast<double>(panels_.size()) * step;
  const double width =
      legend_left + kLegendLine + 20 + kLetter * static_cast<double>(longest);
  const double legend_height =
      kTop + 20 + kLegendRow * static_cast<double>(names_.size());
  const double height = std::max(kTop + kPanelHeight + kBottom, legend_height);
  out_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  text(kLeft, 24, "start", "font-size=\"15\" font-weight=\"bold\"", title);
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    draw_panel(panels_[i], kLeft + static_cast<double>(i) * step, i == 0);
  }
  draw_legend(legend_left);
  return out_ + "</svg>\n";
}

}  // namespace

std::vector<double> ticks(double low, double high, bool log, int count) {
  std::vector<double> all;
  // Over less than a decade 1, 2 and 5 would be too few.
  if (log && high / low > 10) {
    const int first = static_cast<int>(std::floor(std::log10(low)));
    const int last = static_cast<int>(std::ceil(std::log10(high)));
    for (int e = first; e <= last; ++e) {
      for (const double m : {1.0, 2.0, 5.0}) {
        const double tick = m * std::pow(10.0, e);
        const bool few = last - first <= 3;
        if (tick >= low && tick <= high && (few || m == 1)) all.push_back(tick);
      }
    }
    return all;
  }
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5.0, 2.0, 1.0}) {
    if (m * power >= rough) step = m * power;
  }
  for (double i = std::ceil(low / step); i * step <= high; ++i) {
    all.push_back(i * step);
  }
  return all;
}

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

std::string draw_plot(const std::string& title,
                      const std::vector<Panel>& panels, const Axis& x,
                      const Axis& y) {
  return Drawing(panels, x, y).draw(title);
}

}  // namespace sluice
