#include "sluice/plan/drift.h"

#include <gtest/gtest.h>

namespace sluice::testing {
namespace {

// How many of so many steps of that length say that something has changed.
int changes(Drift& drift, double seconds, std::size_t steps) {
  int count = 0;
  for (std::size_t i = 0; i < steps; ++i) count += drift.add(seconds) ? 1 : 0;
  return count;
}

TEST(Drift, NoticesStepsThatBecameLongerOrShorter) {
  Drift drift;
  EXPECT_EQ(changes(drift, 0.010, 4 * Drift::kWindow), 0);
  EXPECT_EQ(changes(drift, 0.011, 4 * Drift::kWindow), 0);
  // Once: what is new is then the rule.
  EXPECT_EQ(changes(drift, 0.020, 4 * Drift::kWindow), 1);
  EXPECT_EQ(changes(drift, 0.010, 4 * Drift::kWindow), 1);
}

TEST(Drift, PassesOverSingleSteps) {
  Drift drift;
  for (std::size_t i = 0; i < 8 * Drift::kWindow; ++i) {
    EXPECT_FALSE(drift.add(i % 5 == 0 ? 1.0 : 0.010));
  }
}

TEST(Drift, ForgetsWhenItStartsAgain) {
  Drift drift;
  changes(drift, 0.010, Drift::kWindow);
  drift.restart();
  EXPECT_EQ(changes(drift, 0.020, 3 * Drift::kWindow), 0);
}

}  // namespace
}  // namespace sluice::testing
