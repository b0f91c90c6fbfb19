#include "sluice/sync/stage_costs.h"

#include "support.h"

namespace sluice::testing {
namespace {

TEST(StageCosts, HasARowForEveryStageAndMethod) {
  auto backend = make_cpu_backend({1, "portable"});
  auto clock = make_cpu_clock(1);
  CostQuery query;
  query.sparsifiers = {"topk", "dgc:upper=1.5"};
  query.largest = std::size_t{1} << 17;
  Profile profile;
  profile.model = "any";
  profile.tensors = {{"w", 10, {10}, 1e-3, 0}};
  profile.costs = measure_costs(*backend, *clock, query);
  check_profile(profile);
  EXPECT_EQ(profile_from_json(to_json(profile)), profile);
  for (const auto& [what, method] : {std::pair{"select", "topk"},
                                     {"select", "dgc"},
                                     {"select", "none"},
                                     {"encode", "topk"},
                                     {"decode", "dgc"},
                                     {"apply", "topk"},
                                     {"apply", "none"},
                                     {"sum", "none"}}) {
    const CostCurve* curve = profile.find(what, method, "cpu");
    ASSERT_NE(curve, nullptr) << what << " " << method;
    EXPECT_GT(curve->at(1000), 0) << what << " " << method;
  }
  // Eight times the elements, of which every one is read.
  const CostCurve& sum = *profile.find("sum", "none", "cpu");
  EXPECT_EQ(sum.points().front().size, 1 << 14);
  EXPECT_EQ(sum.points().back().size, 1 << 17);
}

}  // namespace
}  // namespace sluice::testing
