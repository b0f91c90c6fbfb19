#include "sluice/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "sluice/report/axis.h"
#include "sluice/report/labels.h"
#include "sluice/report/markup.h"

namespace sluice {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++n;
  }
  return n;
}

Picture with_curves(std::size_t n) {
  Picture picture;
  picture.title = "title";
  picture.panels = {{"panel", {}}};
  for (std::size_t i = 0; i < n; ++i) {
    const auto y = static_cast<double>(i);
    picture.panels[0].curves.push_back(
        {"curve" + std::to_string(i), {0, 1, 2}, {y, y + 1, y + 2}});
  }
  return picture;
}

TEST(Plot, ColoursSevenLinesAndGreysTheRest) {
  const std::string svg = draw_plot(with_curves(19));
  EXPECT_EQ(count(svg, "<polyline"), 19U);
  EXPECT_EQ(count(svg,
                  "stroke-width=\"1.2\" stroke-linejoin=\"round\" "
                  "class=\"muted\""),
            12U);
  EXPECT_NE(svg.find(">12 others<"), std::string::npos);
}

TEST(Plot, NamesLinesAtTheirEndsWithoutALegend) {
  const std::string svg = draw_plot(with_curves(3));
  EXPECT_EQ(count(svg, ">curve1<"), 2U);  // the label, and the line's title
  EXPECT_EQ(count(svg, "stroke-width=\"2.2\" class="), 0U);
}

TEST(Plot, SaysThatAnAxisIsLogarithmic) {
  Picture picture = with_curves(1);
  picture.x = {.label = "steps", .log = true};
  picture.y = {.label = "loss"};
  const std::string svg = draw_plot(picture);
  EXPECT_NE(svg.find(">steps (log)<"), std::string::npos);
  EXPECT_NE(svg.find(">loss<"), std::string::npos);
}

TEST(Plot, EscapesNames) {
  Picture picture = with_curves(2);
  const std::string bad = "<script>alert('&\"')</script>";
  picture.title = picture.subtitle = picture.panels[0].title = bad;
  picture.x.label = picture.y.label = bad;
  picture.mark = {{1, bad}};
  picture.panels[0].curves[0].name = bad;
  EXPECT_EQ(count(draw_plot(picture), "<script"), 0U);
}

TEST(Plot, LeavesOutWhatIsNotFinite) {
  Picture picture = with_curves(1);
  picture.panels[0].curves[0].y = {kNan, 3, kInf};
  const std::string svg = draw_plot(picture);
  EXPECT_EQ(count(svg, "<circle"), 1U);  // of the point that is left
  EXPECT_EQ(count(svg, "nan"), 0U);
  EXPECT_EQ(count(svg, "inf"), 0U);
}

TEST(Plot, DrawsPanelsWithoutCurves) {
  Picture picture;
  picture.panels = {{"a", {}}, {"b", {{"empty", {}, {}}}}};
  EXPECT_EQ(count(draw_plot(picture), "<polyline"), 0U);
}

TEST(Plot, SurvivesNumbersOfAnySize) {
  for (const double y : {0.0, 1e-300, 1e300, -1e300, 1e-320}) {
    for (const bool log : {false, true}) {
      Picture picture = with_curves(1);
      picture.panels[0].curves[0].y = {y, y, 2 * y};
      picture.y.log = log;
      const std::string svg = draw_plot(picture);
      EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0U) << y;
    }
  }
}

// A minute for each pair before axes were bounded.
TEST(Axis, EndsForAnyDouble) {
  using Limits = std::numeric_limits<double>;
  std::vector<double> values = {kNan, kInf, -kInf, 0, 1, -1};
  for (const double v : {Limits::denorm_min(), 1e-323, 1e-320, 1e-318, 1e-308,
                         1e-13, 3e8, 1e300, 1.7e308, Limits::max()}) {
    values.insert(values.end(), {v, -v});
  }
  for (const double a : values) {
    for (const double b : values) {
      for (const bool log : {false, true}) {
        const Scale scale({a, b}, {.label = "", .log = log}, 100);
        for (const double tick : scale.ticks(5)) {
          EXPECT_TRUE(std::isfinite(tick)) << a << " " << b << " " << log;
          EXPECT_TRUE(std::isfinite(scale(tick))) << a << " " << b;
        }
        for (const double v : {a, b}) {
          if (shows(v, {.label = "", .log = log})) {
            EXPECT_GE(scale(v), 0) << a << " " << b << " " << log;
            EXPECT_LE(scale(v), 100) << a << " " << b << " " << log;
          }
        }
        EXPECT_LE(ticks(a, b, log, 6).size(), 40U) << a << " " << b;
      }
    }
  }
}

TEST(Markup, EncodesPathsForLinks) {
  EXPECT_EQ(encode_path("a/b-1.2_~/c.html"), "a/b-1.2_~/c.html");
  EXPECT_EQ(encode_path("50% of #1?/a b:\"<\xc3\xa9"),
            "50%25%20of%20%231%3F/a%20b%3A%22%3C%C3%A9");
}

TEST(Labels, CoverNothing) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0, 300);
  const PlotBox room{0, 0, 400, 310};
  std::size_t placed = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<PlotLine> lines;
    for (int i = 0; i < 7; ++i) {
      lines.push_back({{{0, any(random)}, {any(random), any(random)}}, "name"});
    }
    const auto places = place_labels(lines, room);
    std::vector<PlotBox> boxes;
    for (const auto& place : places) {
      if (!place) continue;
      ++placed;
      const double width = 4 * kLetterWidth;
      const bool middle = std::string(place->anchor) == "middle";
      const double left = place->at.x - (middle ? width / 2 : 0);
      const PlotBox box{left, place->at.y - 9, left + width, place->at.y + 3};
      for (const PlotBox& other : boxes) EXPECT_FALSE(box.meets(other));
      for (const PlotLine& line : lines) {
        EXPECT_FALSE(box.has(line.points[0]) || box.has(line.points[1]));
      }
      boxes.push_back(box);
    }
  }
  EXPECT_GT(placed, 200U);  // of 350
}

TEST(Labels, KeepTheOrderOfLinesThatEndTogether) {
  std::vector<PlotLine> lines;
  for (const double y : {52.0, 50.0, 51.0}) {
    lines.push_back({{{0, 0}, {300, y}}, "name"});
  }
  const auto places = place_labels(lines, {0, 0, 400, 300});
  ASSERT_TRUE(places[0] && places[1] && places[2]);
  EXPECT_LT(places[1]->at.y, places[2]->at.y);
  EXPECT_LT(places[2]->at.y, places[0]->at.y);
}

TEST(Markup, ReplacesWhatMeansSomething) {
  EXPECT_EQ(escape_markup("<a href='x'>&\"\x01"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;?");
  EXPECT_EQ(escape_markup("\u03b2 \xff\xfe \xc3"), "\u03b2 ?? ?");
  EXPECT_EQ(escape_markup("\xed\xa0\x80"), "???");  // half of a pair
}

TEST(Markup, ShortensByCharacters) {
  EXPECT_EQ(shorten("\u03b1\u03b2\u03b3", 3), "\u03b1\u03b2\u03b3");
  EXPECT_EQ(shorten("\u03b1\u03b2\u03b3\u03b4", 3), "\u03b1\u03b2\u2026");
}

}  // namespace
}  // namespace sluice
