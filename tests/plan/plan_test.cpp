#include "sluice/plan/plan.h"

#include "refusal.h"
#include "sluice/core/error.h"
#include "support.h"

namespace sluice::testing {
namespace {

PlanInput input() {
  PlanInput in;
  in.sizes = {100, 10, 200, 20};
  in.dense = {false, true, false, true};
  return in;
}

std::vector<std::vector<std::size_t>> tensors_of(const Plan& plan) {
  std::vector<std::vector<std::size_t>> out;
  for (const BucketPlan& b : plan.buckets) out.push_back(b.tensors);
  return out;
}

using TensorGroups = std::vector<std::vector<std::size_t>>;

TEST(Plan, GroupsInTheOrderOfBackward) {
  EXPECT_EQ(tensors_of(make_plan("layerwise", input())),
            (TensorGroups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("single", input())),
            (TensorGroups{{2, 0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1k", input())),
            (TensorGroups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1200", input())),
            (TensorGroups{{2, 0}, {3, 1}}));
  PlanInput dense = input();
  dense.sparse.sparsifier = "none";
  EXPECT_EQ(tensors_of(make_plan("layerwise", dense)),
            (TensorGroups{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(tensors_of(make_plan("size=100", dense)),
            (TensorGroups{{3, 2}, {1, 0}}));
  EXPECT_EQ(tensors_of(make_plan("size=80", dense)),
            (TensorGroups{{3}, {2}, {1, 0}}));
  EXPECT_EQ(make_plan("single", dense).buckets[0].collective, "dense");
}

const std::vector<std::string> kNames = {"a.weight", "a.bias", "b.weight",
                                         "b.bias"};

TEST(Plan, LeavesDensitiesToTheSchedule) {
  for (const BucketPlan& b : make_plan("layerwise", input()).buckets) {
    EXPECT_EQ(b.density, std::nullopt);
  }
}

TEST(Plan, ComesBackFromJson) {
  Plan plan = make_plan("single", input());
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
  plan.buckets[0].density = 0.25;
  EXPECT_EQ(plan_from_json(to_json(plan, kNames), kNames), plan);
}

TEST(Plan, NamesTensors) {
  const Plan plan = make_plan("single", input());
  const std::string json = to_json(plan, kNames);
  EXPECT_NE(json.find("\"b.weight\",\n        \"a.weight\""), std::string::npos)
      << json;
  EXPECT_EQ(bucket_labels(plan, kNames),
            (std::vector<std::string>{"b.weight + 1", "b.bias + 1"}));
  EXPECT_EQ(bucket_labels(make_plan("layerwise", input()), kNames)[0],
            "b.weight");
  // The same in a model that has them in another order.
  const std::vector<std::string> other = {"b.bias", "b.weight", "a.bias",
                                          "a.weight"};
  EXPECT_EQ(tensors_of(plan_from_json(json, other)),
            (TensorGroups{{1, 3}, {0, 2}}));
}

TEST(BucketDensity, FollowsTheScheduleOrScalesItsOwn) {
  BucketPlan bucket;
  EXPECT_EQ(bucket_density(bucket, {0.25, 0.01}), 0.25);
  bucket.density = 0.03;
  EXPECT_EQ(bucket_density(bucket, {0.01, 0.01}), 0.03);
  EXPECT_DOUBLE_EQ(bucket_density(bucket, {0.1, 0.01}), 0.3);
  EXPECT_DOUBLE_EQ(bucket_density(bucket, {0.005, 0.01}), 0.015);
  EXPECT_EQ(bucket_density(bucket, {1, 0.01}), 1);
}

std::string refusal_of(const std::string& json) {
  return refusal([&] { plan_from_json(json, kNames); });
}

TEST(Plan, SaysWhatIsWrongWithAFile) {
  const std::string good = to_json(make_plan("single", input()), kNames);
  const auto with = [&](const std::string& part, const std::string& by) {
    std::string json = good;
    return json.replace(json.find(part), part.size(), by);
  };
  EXPECT_EQ(refusal_of(good), "nothing");
  EXPECT_EQ(refusal_of(with("a.weight", "a.wight")),
            "[plan] tensors must be of the model, but bucket 0 has 'a.wight'; "
            "did you mean 'a.weight'?");
  EXPECT_EQ(refusal_of(with("a.weight", "b.weight")),
            "[plan] must have each tensor once, but has 'b.weight' twice; take "
            "it out of one bucket");
  EXPECT_EQ(refusal_of(with(",\n        \"a.weight\"", "")),
            "[plan] must have each tensor of the model once, but lacks "
            "'a.weight'; put it into a bucket");
  EXPECT_EQ(refusal_of(with("\"version\": 2", "\"version\": 1")),
            "[plan] version must be 2, got 1; version 1 had numbers for "
            "tensors: put their names there, as in plan.json of a new run");
  EXPECT_EQ(refusal_of(with("\"version\": 2", "\"version\": 3")),
            "[plan] version must be 2, got 3");
  for (const char* density : {"0", "-0.5", "1.5"}) {
    EXPECT_EQ(refusal_of(with("\"feedback\"", concat("\"density\": ", density,
                                                     ", \"feedback\""))),
              concat("[plan] a density must be above 0 and at most 1, but "
                     "bucket 0 has ",
                     density, "; without one it follows --density"));
  }
}

TEST(Plan, RefusesJsonThatIsUnsound) {
  const std::string good = to_json(make_plan("single", input()), kNames);
  const auto with = [&](const std::string& part, const std::string& by) {
    std::string json = good;
    return json.replace(json.find(part), part.size(), by);
  };
  EXPECT_EQ(refusal_of(with("\"feedback\"", "\"denstiy\": 1, \"feedback\"")),
            "[plan] bucket 0 has no key 'denstiy'; did you mean 'density'?");
  EXPECT_EQ(refusal_of(with("\"name\"", "\"nme\": 1, \"name\"")),
            "[plan] a plan has no key 'nme'; did you mean 'name'?");
  EXPECT_EQ(refusal_of(with("\"name\"", "\"name\": \"x\", \"name\"")),
            "[plan] key 'name' must be there once per object, is there twice");
  EXPECT_NE(refusal_of(with("single", "\xff")).find("UTF-8"),
            std::string::npos);
  const std::string deep(200'000, '[');
  EXPECT_EQ(refusal_of(with("\"single\"", deep)),
            "[plan] must be at most 64 levels deep, is deeper");
  EXPECT_NE(refusal_of("{\n \"version\": 2,\n x}").find("line 3, column 2"),
            std::string::npos);
}

TEST(Plan, RefusesGarbage) {
  for (const char* text : {"", "layer", "size=", "size=x", "size=0", "size=-1",
                           "size=5T", "size=1e99", "SINGLE"}) {
    EXPECT_THROW(make_plan(text, input()), std::invalid_argument) << text;
  }
  for (const char* json :
       {"", "{", "[]", R"({"version": 2, "name": "x"})",
        R"({"version": 2, "name": "x", "buckets": [{"tensors": []}]})",
        R"({"version": 2, "name": "x", "buckets": [{"tensors": [0]}]})"}) {
    EXPECT_NE(refusal_of(json), "nothing") << json;
  }
}

}  // namespace
}  // namespace sluice::testing
