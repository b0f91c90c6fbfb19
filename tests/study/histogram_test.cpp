#include "sluice/study/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace sluice {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint64_t sum(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

TEST(Histogram, PutsEveryMagnitudeIntoItsBin) {
  std::mt19937_64 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(10'000);
  for (float& v : values) v = normal(rng);
  values[0] = 0;
  values[1] = kNan;
  values[2] = 1e-12F;
  const auto histogram = count_magnitudes(values);
  EXPECT_EQ(histogram.below, 1U);
  EXPECT_EQ(sum(histogram.counts), values.size() - 3);
  for (int bin = 0; bin < MagnitudeHistogram::kBins; ++bin) {
    std::uint64_t count = 0;
    for (const float v : values) {
      const double a = std::abs(static_cast<double>(v));
      count += a >= histogram.edge(bin) && a < histogram.edge(bin + 1) ? 1 : 0;
    }
    EXPECT_EQ(histogram.counts[static_cast<std::size_t>(bin)], count) << bin;
  }
}

TEST(Histogram, HasTheLargestInItsLastBin) {
  for (const float largest : {1.0F, 3e38F, 1e-45F, 0.3F}) {
    const auto histogram = count_magnitudes(std::vector<float>{-largest});
    EXPECT_EQ(histogram.counts.back(), 1U) << largest;
  }
}

TEST(Histogram, CountsSignsApart) {
  const std::vector<float> values = {-1, -1, 1, 0, 1e6F, kNan};
  const auto histogram = count_values(values);
  EXPECT_EQ(sum(histogram.counts), 5U);
  EXPECT_EQ(histogram.counts[SignedHistogram::kBins / 2], 4U);
  EXPECT_NEAR(histogram.reach, 6e6 / std::sqrt(5.0), 1);
  const auto pair = count_values(std::vector<float>{-1, 1, 1});
  EXPECT_DOUBLE_EQ(pair.reach, 6);
  EXPECT_EQ(pair.counts[25], 1U);
  EXPECT_EQ(pair.counts[35], 2U);
}

TEST(Histogram, IsEmptyWhereThereIsNothing) {
  for (const auto& nothing : std::vector<std::vector<float>>{
           {}, {0, 0}, {kNan, std::numeric_limits<float>::infinity()}}) {
    EXPECT_TRUE(count_magnitudes(nothing).counts.empty());
    EXPECT_TRUE(count_values(nothing).counts.empty());
  }
}

TEST(Histogram, SparsityIsShares) {
  const Sparsity s = measure_sparsity(
      std::vector<float>{0, -0.0F, 1e-4F, -3, 4, 0.5F, kNan,
                         -std::numeric_limits<float>::infinity(), 1, 2});
  EXPECT_EQ(s.entries, 10U);
  EXPECT_EQ(s.nonfinite, 2U);
  EXPECT_DOUBLE_EQ(s.zeros, 0.2);
  EXPECT_DOUBLE_EQ(s.below_1e3, 0.3);
  EXPECT_EQ(s.largest, 4);
  EXPECT_NEAR(s.norm, std::sqrt(9 + 16 + 0.25 + 1 + 4), 1e-6);
  EXPECT_EQ(measure_sparsity({}).zeros, 0);
  EXPECT_EQ(measure_sparsity(std::vector<float>{0, 0}).below_1e3, 1);
}

}  // namespace
}  // namespace sluice
