#include "sluice/study/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace sluice {
namespace {

using Indices = std::vector<std::uint32_t>;

// Two workers, one entry of four each.
const std::vector<double> kMeanInput = {2, 1.5, 0, 1};
const std::vector<double> kMeanSelected = {2, 1.5, 0, 0};
const Means kTwo = {kMeanInput, kMeanInput, kMeanSelected};

TEST(Evidence, OfTwoWorkersThatGetEverything) {
  const std::vector<float> again = {2, 0, 0, 0};
  const std::vector<float> applied = {2, 1.5, 0, 0};
  const Evidence e = evidence(kTwo, again, applied, 1);
  EXPECT_NEAR(*e.delta(), 0.1839, 1e-4);
  EXPECT_NEAR(*e.xi, 0.5571, 1e-4);
  EXPECT_NEAR(*e.relative_error, 0.3714, 1e-4);
}

TEST(Evidence, OfTwoWorkersThatGetTheLargest) {
  const std::vector<float> one = {2, 0, 0, 0};
  EXPECT_NEAR(*evidence(kTwo, one, one, 1).delta(), 0.5977, 1e-4);
}

// On average over draws of random-k it is 1.
TEST(Evidence, DeltaOfRandomKIsOneInTheMean) {
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal;
  std::vector<double> x(50);
  for (double& v : x) v = normal(rng);
  std::vector<std::uint32_t> order(x.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  double n1 = 0;
  double n2 = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    std::shuffle(order.begin(), order.end(), rng);
    std::vector<float> y(x.size(), 0);
    for (std::size_t i = 0; i < 5; ++i) {
      y[order[i]] = static_cast<float>(x[order[i]]);
    }
    const Evidence e = evidence({x, x, x}, y, y, 5);
    n1 += e.n1;
    n2 += e.n2;
  }
  EXPECT_NEAR(n1 / n2, 1, 0.01);
}

TEST(Evidence, SaysNothingOverZero) {
  const std::vector<double> zero(4, 0.0);
  const std::vector<float> none(4, 0.0F);
  const Evidence e = evidence({zero, zero, zero}, none, none, 1);
  EXPECT_FALSE(e.delta() || e.xi || e.relative_error);
  EXPECT_FALSE(evidence(kTwo, none, none, 4).delta()) << "all of it is sent";
}

TEST(Contraction, IsWhatIsLeftOfTheSquares) {
  const std::vector<float> x = {0.5F, -3, 2, -2, 0, 1};
  const auto c = contraction(x, Indices{1, 2}, std::vector<float>{-3, 2});
  ASSERT_TRUE(c);
  EXPECT_NEAR(c->reached, 5.25 / 18.25, 1e-12);
  EXPECT_NEAR(c->bound, 4.0 / 6, 1e-12);
  EXPECT_NEAR(c->bell, 16.0 / 36, 1e-12);
}

TEST(Contraction, SeesRoundedValues) {
  const std::vector<float> x = {4, 0, 3};
  const auto c = contraction(x, Indices{0}, std::vector<float>{3});
  EXPECT_NEAR(c->reached, (1.0 + 9) / 25, 1e-12);
}

TEST(Contraction, IsOneIfNothingIsSentAndNoneOfNothing) {
  EXPECT_EQ(contraction(std::vector<float>{1, 2}, {}, {})->reached, 1);
  EXPECT_FALSE(contraction(std::vector<float>{0, 0}, {}, {}));
  EXPECT_FALSE(contraction({}, {}, {}));
}

TEST(Ages, EqualTheSlowOnes) {
  std::mt19937_64 rng(5);
  constexpr std::size_t kEntries = 37;
  Ages ages(kEntries);
  std::vector<std::uint64_t> last(kEntries, 0);
  for (std::uint64_t step = 1; step <= 60; ++step) {
    Indices sent;
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      if (rng() % 20 == 0) sent.push_back(i);
    }
    for (const std::uint32_t i : sent) last[i] = step;
    ages.sent(step, sent);
    std::vector<std::uint64_t> all;
    for (const std::uint64_t l : last) all.push_back(step - l);
    std::sort(all.begin(), all.end());
    const auto at = [&](double q) {
      return all[static_cast<std::size_t>(std::ceil(q * kEntries)) - 1];
    };
    double mean = 0;
    for (const std::uint64_t a : all) mean += static_cast<double>(a);
    const auto found = ages.quantiles(step);
    EXPECT_NEAR(found.mean, mean / kEntries, 1e-9);
    EXPECT_EQ(found.median, at(0.5));
    EXPECT_EQ(found.p90, at(0.9));
    EXPECT_EQ(found.p99, at(0.99));
    EXPECT_EQ(found.oldest, all.back());
  }
}

TEST(Ages, OfNothingAreZero) {
  EXPECT_EQ(Ages(0).quantiles(7).oldest, 0U);
  EXPECT_EQ(Ages(3).quantiles(7).median, 7U);
}

}  // namespace
}  // namespace sluice
