#include "sluice/cost/model.h"

#include "support.h"

namespace sluice::testing {
namespace {

Workload independent(double n, double density, double ranks) {
  Workload x{n, n * density, 0, ranks};
  x.u = independent_union(n, x.k, ranks);
  return x;
}

// The table of the literature for n = 1e8, in MB received per rank.
TEST(CostModel, GivesTheKnownBounds) {
  EXPECT_NEAR(bound_bytes(independent(1e8, 0.01, 2)) / 1e6, 5.0, 0.05);
  EXPECT_NEAR(bound_bytes(independent(1e8, 0.01, 4)) / 1e6, 14.3, 0.05);
  EXPECT_NEAR(bound_bytes(independent(1e8, 0.001, 8)) / 1e6, 3.54, 0.01);
  EXPECT_NEAR(bound_bytes(independent(1e8, 0.01, 8)) / 1e6, 31.6, 0.1);
  EXPECT_NEAR(bound_bytes(independent(1e8, 0.01, 64)) / 1e6, 200, 1);
  EXPECT_EQ(bound_bytes({100, 10, 10, 1}), 0);
  // All of everything: the dense bound, and no indices.
  EXPECT_DOUBLE_EQ(bound_bytes({1000, 1000, 1000, 4}), 4 * 1500.0);
}

TEST(CostModel, CodesAtMostDenseAndAtLeastHeaders) {
  EXPECT_EQ(coded_bytes(0, 1000), coded_bytes(0, 0));
  EXPECT_LE(coded_bytes(1000, 1000), 96 + 4000);
  // Elias-Fano takes 11.95 bits per index at 0.1 %, 8.56 at 1 %.
  EXPECT_NEAR((coded_bytes(1e5, 1e8) - 96) / 1e5, 4 + 11.95 / 8, 0.02);
  EXPECT_NEAR((coded_bytes(1e6, 1e8) - 96) / 1e6, 4 + 8.56 / 8, 0.02);
}

TEST(CostModel, InterpolatesUnions) {
  const Workload disjoint{1e6, 100, 800, 8};
  EXPECT_NEAR(partial_union(disjoint, 4), 400, 1e-6);
  const Workload identical{1e6, 100, 100, 8};
  EXPECT_NEAR(partial_union(identical, 4), 100, 1e-6);
}

}  // namespace
}  // namespace sluice::testing
