#include "sluice/plan/profile.h"

#include <cmath>
#include <functional>

#include "refusal.h"
#include "sluice/plan/network.h"
#include "support.h"

namespace sluice::testing {
namespace {

// As somebody may write it by hand.
const std::string kProfile = R"({
  "format": 1, "model": "two", "forward": 0.5,
  "tensors": [
    {"name": "a", "elements": 6, "shape": [2, 3], "backward": 0.25},
    {"name": "b", "elements": 100, "backward": 0.75, "spread": 0.01}],
  "costs": [
    {"what": "select", "points": [[10, 1e-3], [100, 2e-3]]},
    {"what": "select", "method": "dgc", "device": "cuda",
     "points": [[10, 5e-3], [100, 6e-3]]}]
})";

std::string refusal_with(const std::string& part, const std::string& by) {
  std::string json = kProfile;
  json.replace(json.find(part), part.size(), by);
  return refusal([&] { profile_from_json(json); });
}

TEST(Profile, IsReadAsWrittenByHand) {
  const Profile p = profile_from_json(kProfile);
  EXPECT_EQ(p.model, "two");
  EXPECT_EQ(p.backward(), 1);
  EXPECT_EQ(p.update, 0);
  EXPECT_EQ(p.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.tensors[0].shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(p.find("select", "topk", "cpu")->at(55), 1.5e-3);
  EXPECT_EQ(p.find("select", "dgc", "cuda")->at(10), 5e-3);
  EXPECT_EQ(p.find("select", "topk", "cuda"), nullptr);
  EXPECT_EQ(p.find("apply", "topk", "cpu"), nullptr);
  EXPECT_EQ(profile_from_json(to_json(p)), p);
}

TEST(CostCurve, IsStraightBetweenPointsAndNeverFallsBeyondThem) {
  const CostCurve curve({{10, 1}, {20, 3}, {40, 4}});
  EXPECT_EQ(curve.at(0), 0);
  EXPECT_EQ(curve.at(1), 1);
  EXPECT_EQ(curve.at(15), 2);
  EXPECT_EQ(curve.at(40), 4);
  EXPECT_EQ(curve.at(80), 6);
  EXPECT_EQ(CostCurve({{10, 2}, {20, 1}}).at(50), 1);
  EXPECT_EQ(CostCurve().at(50), 0);
}

TEST(Profile, SaysWhatIsWrong) {
  EXPECT_EQ(refusal_with("\"b\", \"elements\": 100", "\"a\", \"elements\": 7"),
            "[profile] must have each tensor once, but has 'a' twice");
  EXPECT_EQ(refusal_with("0.75", "-0.75"),
            "[profile] 'backward' of tensor 'b' must be a number, 0 or more, "
            "got -0.75");
  EXPECT_EQ(refusal_with("0.75", "null"),
            "[profile] 'backward' of tensor 'b' must be a number, 0 or more, "
            "got null");
  EXPECT_EQ(refusal_with("\"backward\": 0.25", "\"spread\": 0"),
            "[profile] tensor 'a' must have 'backward', but has none");
  EXPECT_EQ(refusal_with("\"spread\"", "\"sprad\""),
            "[profile] tensor 1 has no key 'sprad'; did you mean 'spread'?");
  EXPECT_EQ(refusal_with("\"elements\": 6", "\"elements\": 7"),
            "[profile] the shape of tensor 'a' must have its 7 elements, has "
            "6");
  EXPECT_EQ(refusal_with("\"elements\": 100", "\"elements\": 0"),
            "[profile] 'elements' of tensor 'b' must be a whole number, at "
            "least 1, got 0");
  EXPECT_EQ(refusal_with(", [100, 2e-3]", ""),
            "[profile] cost 0 (select of * on cpu): needs two points at least "
            "to know the slope, got 1");
  EXPECT_EQ(refusal_with("[100, 2e-3]", "[10, 2e-3]"),
            "[profile] cost 0 (select of * on cpu): sizes must rise from point "
            "to point, got 10 after 10");
  EXPECT_EQ(refusal_with("2e-3", "-1"),
            "[profile] cost 0 (select of * on cpu): sizes must be 0 or more "
            "and seconds from 0 to 1e9, got [100, -1]");
  EXPECT_EQ(refusal_with("[100, 2e-3]", "[10.5, 1e9]"),
            "[profile] cost 0 (select of * on cpu): seconds must rise by at "
            "most 1e9 per unit of size, got [10.5, 1e+09] after [10, 0.001]");
  EXPECT_EQ(refusal_with("\"select\"", "\"selct\""),
            "[profile] no stage 'selct'; did you mean 'select'?");
  EXPECT_EQ(refusal_with("\"method\": \"dgc\", \"device\": \"cuda\",", ""),
            "[profile] must have each cost once, but has select of * on cpu "
            "twice");
  EXPECT_EQ(refusal_with("\"select\"", "\"copy\""),
            "[profile] copies are between a GPU and its host, so that their "
            "device must be cuda, got 'cpu'");
  EXPECT_EQ(refusal_with("\"cuda\"", "\"tpu\""),
            "[profile] a device must be cpu or cuda, got 'tpu'");
  EXPECT_NE(refusal_with("\"format\": 1", "\"format\": 2").find("format 1"),
            std::string::npos);
  EXPECT_NE(refusal_with("0.75", "NaN").find("must be JSON"),
            std::string::npos);
}

TEST(Profile, IsCheckedWhereItIsMade) {
  Profile p = profile_from_json(kProfile);
  p.tensors[1].backward = std::nan("");
  EXPECT_EQ(
      refusal([&] { check_profile(p); }),
      "[profile] the seconds of tensor 'b' must be from 0 to 1e9, got nan "
      "with a spread of 0.01");
  p.tensors.clear();
  EXPECT_EQ(refusal([&] { check_profile(p); }),
            "[profile] must have a tensor, has none; list the model's");
}

TEST(NetworkFile, IsReadAsWrittenByHand) {
  const Topology flat =
      network_from_json(R"({"format": 1, "alpha": 5e-5, "beta": 8e-9})");
  EXPECT_EQ(flat.between.alpha, 5e-5);
  EXPECT_EQ(flat.between.beta, 8e-9);
  EXPECT_FALSE(flat.two_level());
  const Topology two = network_from_json(
      R"({"format": 1, "alpha": 1, "beta": 2,
          "machine": {"ranks": 8, "alpha": 3, "beta": 4}})");
  EXPECT_EQ(two.per_machine, 8);
  EXPECT_EQ(two.inside.alpha, 3);
  EXPECT_EQ(two.inside.beta, 4);
}

TEST(NetworkFile, FindsALineThroughTimes) {
  const Topology net = network_from_json(
      R"({"format": 1, "times": [{"bytes": 0, "seconds": 1},
          {"bytes": 10, "seconds": 6}, {"bytes": 20, "seconds": 11}]})");
  EXPECT_DOUBLE_EQ(net.between.alpha, 1);
  EXPECT_DOUBLE_EQ(net.between.beta, 0.5);
}

TEST(NetworkFile, SaysWhatIsWrong) {
  const auto of = [](const std::string& rest) {
    return refusal([&] { network_from_json("{\"format\": 1, " + rest + "}"); });
  };
  EXPECT_EQ(of(R"("times": [{"bytes": 4, "seconds": 1}])"),
            "[network] needs times of two sizes at least to tell alpha from "
            "beta, has 1 time");
  EXPECT_EQ(of(R"("alpha": 1, "beta": -2)"),
            "[network] 'beta' of a network must be a number, 0 or more, got "
            "-2");
  EXPECT_EQ(of(R"("alpha": 1)"),
            "[network] a network must have 'beta', but has none");
  EXPECT_EQ(of(R"("alpha": 1, "bta": 2)"),
            "[network] a network has no key 'bta'; did you mean 'beta'?");
  EXPECT_EQ(of(R"("alpha": 1, "beta": 2, "workers": 0)"),
            "[network] 'workers' of a network must be a whole number, at least "
            "1, got 0");
  EXPECT_EQ(of(R"("alpha": 1, "beta": 2, "machine": {"ranks": 0})"),
            "[network] 'ranks' of the machine must be a whole number, at least "
            "1, got 0");
  EXPECT_NE(refusal([] { network_from_json("[]"); }).find("format 1"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::testing
