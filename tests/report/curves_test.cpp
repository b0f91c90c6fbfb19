#include "sluice/report/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/report/advice.h"
#include "sluice/report/settings.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

TEST(Thinned, KeepsEndsAndPeaks) {
  Curve curve{"c", {}, {}};
  for (int i = 0; i < 10'000; ++i) {
    curve.x.push_back(i);
    curve.y.push_back(std::sin(i / 100.0));
  }
  curve.y[5001] = 50;
  curve.y[7003] = -50;
  const Curve thin = thinned(curve, 100);
  EXPECT_LE(thin.x.size(), 102U);
  EXPECT_EQ(thin.x.front(), 0);
  EXPECT_EQ(thin.x.back(), 9999);
  EXPECT_TRUE(std::is_sorted(thin.x.begin(), thin.x.end()));
  EXPECT_EQ(*std::max_element(thin.y.begin(), thin.y.end()), 50);
  EXPECT_EQ(*std::min_element(thin.y.begin(), thin.y.end()), -50);
}

TEST(Thinned, LeavesShortCurvesAlone) {
  const Curve curve{"c", {1, 2, 3}, {4, 5, 6}};
  EXPECT_EQ(thinned(curve, 100).y, curve.y);
}

TEST(Curves, AreMeansAsFarAsAllGo) {
  const Curve mean =
      mean_of({{"", {1, 2, 3}, {2, 4, 6}}, {"", {3, 4}, {4, 8}}});
  EXPECT_EQ(mean.x, (std::vector<double>{2, 3}));
  EXPECT_EQ(mean.y, (std::vector<double>{3, 6}));
}

TEST(Settings, NameMethods) {
  EXPECT_EQ(method_of({{"sparsifier", "none"}, {"collective", "dense"}}),
            "dense");
  EXPECT_EQ(method_of({{"sparsifier", "none"}, {"collective", "dense-bf16"}}),
            "dense-bf16");
  EXPECT_EQ(method_of({{"sparsifier", "topk"},
                       {"feedback", "residual"},
                       {"collective", "oktopk"}}),
            "topk+residual+oktopk");
  EXPECT_EQ(
      method_of({{"sparsifier", "dgc"}, {"feedback", "dgc:momentum=0.9"}}),
      "dgc");
  EXPECT_EQ(method_of(Json()), "unknown");
}

TEST(Settings, QuoteWhatAShellWouldRead) {
  const std::string command = command_of({{"model", "it's; rm -rf"}});
  EXPECT_EQ(command, "sluice train --model 'it'\\''s; rm -rf'");
}

MethodResult result(const std::string& name, double waits) {
  MethodResult r;
  r.name = name;
  r.config = {{"sparsifier", name == "dense" ? "none" : name},
              {"optimizer", "sgd:momentum=0"},
              {"density", 0.01}};
  r.step_s = 0.1;
  r.exposed_share = waits;
  return r;
}

std::string advice(const std::vector<MethodResult>& results) {
  std::string text;
  for (const std::string& line : next_steps(results, score_kind("accuracy"))) {
    text += line + "\n";
  }
  return text;
}

TEST(Advice, GoesByWhatAStepWaits) {
  EXPECT_NE(advice({result("dense", 0.5)}).find("dense-bf16 first"),
            std::string::npos);
  EXPECT_NE(advice({result("dense", 0.02)}).find("dense is enough"),
            std::string::npos);
  EXPECT_NE(advice({result("topk", 0.5)}).find("--density 0.001"),
            std::string::npos);
  EXPECT_NE(advice({result("topk", 0.02)}).find("would gain nothing"),
            std::string::npos);
}

TEST(Advice, TakesTheSoonestThatIsNotBehind) {
  MethodResult bad = result("randomk", 0);
  bad.behind = 0.1;
  bad.speedup = 9;
  MethodResult good = result("topk", 0);
  good.behind = 0.001;
  good.speedup = 5;
  const std::string text = advice({result("dense", 0.9), bad, good});
  EXPECT_NE(text.find("Take topk: it comes to the target 5.0 times"),
            std::string::npos);
  EXPECT_NE(text.find("Behind dense by more than seeds differ: randomk (10.0 "
                      "points)"),
            std::string::npos);
}

TEST(Advice, WarnsOfMomentumBesideResiduals) {
  MethodResult r = result("topk", 0.2);
  r.config["optimizer"] = "sgd:momentum=0.9";
  r.config["lr"] = 0.05;
  EXPECT_NE(advice({r}).find("momentum 0.9 in the optimizer"),
            std::string::npos);
  r.config["key of another version"] = 1;
  EXPECT_FALSE(advice({r}).empty());
}

}  // namespace
}  // namespace sluice
