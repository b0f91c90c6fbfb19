#include "sluice/report/palette.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

TEST(Palette, FindsAMethodBehindWhatFollowsItsName) {
  const Palette& p = Palette::standard();
  for (const char* text : {"topk", "topk:x=1", "topk+dgc+balanced", "topk 1 %",
                           "topk@0.01", "topk-0.01-s1"}) {
    EXPECT_EQ(p.find(text), p.find("topk")) << text;
  }
  EXPECT_EQ(p.find("topkk"), std::nullopt);
  EXPECT_EQ(p.find("my topk"), std::nullopt);
  EXPECT_NE(p.find("dense-bf16"), p.find("dense"));
  EXPECT_NE(p.find("adtopk"), p.find("topk"));
}

TEST(Palette, GivesOthersWhatIsLeft) {
  const Palette& p = Palette::standard();
  const auto colours = p.assign({"a", "dense", "b", "topk"});
  EXPECT_EQ(colours[1], *p.find("dense"));
  EXPECT_EQ(colours[3], *p.find("topk"));
  EXPECT_EQ(std::set(colours.begin(), colours.end()).size(), 4U);
}

TEST(Palette, GoesRoundWhenNothingIsLeft) {
  const Palette& p = Palette::standard();
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("x" + std::to_string(i));
  for (const std::size_t colour : p.assign(names)) EXPECT_LT(colour, p.size());
}

TEST(Palette, HasADarkColourForEveryClass) {
  const Palette& p = Palette::standard();
  const std::string css = p.dark_css();
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_NE(css.find("svg .c" + std::to_string(i) +
                       "{color:" + p.colour(i).dark + "}"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace sluice
