#include "sluice/plan/plan.h"

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

using Groups = std::vector<std::vector<std::size_t>>;

TEST(Plan, GroupsInTheOrderOfBackward) {
  EXPECT_EQ(tensors_of(make_plan("layerwise", input())),
            (Groups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("single", input())), (Groups{{2, 0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1k", input())),
            (Groups{{2}, {0}, {3, 1}}));
  EXPECT_EQ(tensors_of(make_plan("size=1200", input())),
            (Groups{{2, 0}, {3, 1}}));
  PlanInput dense = input();
  dense.sparse.sparsifier = "none";
  EXPECT_EQ(tensors_of(make_plan("layerwise", dense)),
            (Groups{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(make_plan("single", dense).buckets[0].collective, "dense");
}

TEST(Plan, ComesBackFromJson) {
  const Plan plan = make_plan("layerwise", input());
  EXPECT_EQ(plan_from_json(to_json(plan), 4), plan);
}

TEST(Plan, RefusesGarbage) {
  for (const char* text : {"", "layer", "size=", "size=x", "size=0", "size=-1",
                           "size=5T", "size=1e99", "SINGLE"}) {
    EXPECT_THROW(make_plan(text, input()), std::invalid_argument) << text;
  }
  const std::string good = to_json(make_plan("single", input()));
  EXPECT_THROW(plan_from_json("{", 4), std::invalid_argument);
  EXPECT_THROW(plan_from_json("[]", 4), std::invalid_argument);
  EXPECT_THROW(plan_from_json(good, 3), std::invalid_argument);
  EXPECT_THROW(plan_from_json(good, 5), std::invalid_argument);
  std::string twice = good;
  twice.replace(twice.find("2"), 1, "0");
  EXPECT_THROW(plan_from_json(twice, 4), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::testing
