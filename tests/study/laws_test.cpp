#include "sluice/study/laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace sluice {
namespace {

using Kind = Law::Kind;
constexpr std::size_t kMany = 100'000;

std::vector<float> draw(std::size_t n, std::uint64_t seed,
                        const std::function<double(std::mt19937_64&)>& one) {
  std::mt19937_64 rng(seed);
  std::vector<float> out(n);
  for (float& v : out) v = static_cast<float>(one(rng));
  return out;
}

double exponential(std::mt19937_64& rng) {
  return std::exponential_distribution<double>()(rng);
}

double sign(std::mt19937_64& rng) { return (rng() & 1U) != 0 ? 1 : -1; }

// One sample of each law, with the law itself.
struct Known {
  Law law;
  std::vector<float> values;
};

std::vector<Known> known_samples() {
  std::vector<Known> all;
  all.push_back({{Kind::kNormal, 0.5, 2, 0}, draw(kMany, 1, [](auto& rng) {
                   return std::normal_distribution<double>(0.5, 2)(rng);
                 })});
  all.push_back({{Kind::kLaplace, 1, 0.5, 0}, draw(kMany, 2, [](auto& rng) {
                   return 1 + 0.5 * sign(rng) * exponential(rng);
                 })});
  all.push_back({{Kind::kGamma, 0, 3, 0.4}, draw(kMany, 3, [](auto& rng) {
                   return sign(rng) *
                          std::gamma_distribution<double>(0.4, 3)(rng);
                 })});
  all.push_back({{Kind::kPareto, 0, 2, 0.2}, draw(kMany, 4, [](auto& rng) {
                   return sign(rng) * 2 * std::expm1(0.2 * exponential(rng)) /
                          0.2;
                 })});
  all.push_back({{Kind::kPareto, 0, 2, -0.3}, draw(kMany, 5, [](auto& rng) {
                   return sign(rng) * 2 * std::expm1(-0.3 * exponential(rng)) /
                          -0.3;
                 })});
  return all;
}

// Every jump from both sides, by counting.
double slow_ks(const Law& law, const std::vector<float>& magnitudes) {
  double largest = 0;
  const auto n = static_cast<double>(magnitudes.size());
  for (const float a : magnitudes) {
    double below = 0;
    double up_to = 0;
    for (const float b : magnitudes) {
      below += b < a ? 1 : 0;
      up_to += b <= a ? 1 : 0;
    }
    largest = std::max({largest, std::abs(law.cdf(a) - below / n),
                        std::abs(law.cdf(a) - up_to / n)});
  }
  return largest;
}

TEST(Laws, FitsFindTheParametersOfTheirLaw) {
  for (const Known& known : known_samples()) {
    SCOPED_TRACE(known.law.name());
    const FitSample sample(known.values);
    const auto law = sample.fit(known.law.kind);
    ASSERT_TRUE(law);
    EXPECT_NEAR(law->location, known.law.location, 0.03);
    // Minka's form for gamma is off by up to 1.5 %.
    EXPECT_NEAR(law->scale / known.law.scale, 1, 0.04);
    EXPECT_NEAR(law->shape, known.law.shape, 0.03);
    // 1.63 / sqrt(n) is exceeded once in 100 samples of the law itself.
    EXPECT_LT(ks_distance(*law, sample.magnitudes()), 0.01);
  }
}

TEST(Laws, TheRightLawIsNearest) {
  for (const Known& known : known_samples()) {
    SCOPED_TRACE(known.law.name());
    const FitSample sample(known.values);
    const double own =
        ks_distance(*sample.fit(known.law.kind), sample.magnitudes());
    for (const Kind other : kLawKinds) {
      if (other == known.law.kind) continue;
      EXPECT_LT(own, ks_distance(*sample.fit(other), sample.magnitudes()))
          << name_of(other);
    }
  }
}

// Exponential magnitudes are a law of three of them.
TEST(Laws, DoubleExponentialIsGammaAndParetoOfShapeOneAndZero) {
  const auto values = draw(
      kMany, 6, [](auto& rng) { return 0.1 * sign(rng) * exponential(rng); });
  const FitSample sample(values);
  EXPECT_NEAR(sample.fit(Kind::kDoubleExponential)->scale, 0.1, 0.002);
  EXPECT_NEAR(sample.fit(Kind::kGamma)->shape, 1, 0.02);
  EXPECT_NEAR(sample.fit(Kind::kPareto)->shape, 0, 0.02);
  for (const Kind kind : kLawKinds) {
    const double far = ks_distance(*sample.fit(kind), sample.magnitudes());
    EXPECT_EQ(far < 0.01, kind != Kind::kNormal) << name_of(kind);
  }
}

TEST(Laws, DensityIsTheDerivativeOfTheShare) {
  for (const Known& known : known_samples()) {
    for (const double a : {0.1, 0.7, 1.3, 4.0}) {
      const double step = 1e-6;
      const double slope =
          (known.law.cdf(a + step) - known.law.cdf(a - step)) / (2 * step);
      EXPECT_NEAR(known.law.density(a), slope, 1e-6)
          << known.law.name() << " at " << a;
    }
  }
}

// Worked by hand from the closed forms, as in the rules: mean sqrt(2/pi),
// variance 1 - 2/pi.
TEST(Laws, UsesTheFormsOfSidco) {
  std::vector<float> values;
  const std::size_t n = 200'000;
  for (std::size_t i = 0; i < n; ++i) {
    // Quantiles of |N(0, 1)|, by bisection on erf.
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    double lo = 0;
    double hi = 8;
    for (int round = 0; round < 60; ++round) {
      const double mid = (lo + hi) / 2;
      (std::erf(mid / std::sqrt(2.0)) < p ? lo : hi) = mid;
    }
    values.push_back(static_cast<float>(lo));
  }
  const FitSample sample(values);
  EXPECT_NEAR(sample.fit(Kind::kGamma)->shape, 1.355092, 1e-3);
  const double q = 2 / M_PI / (1 - 2 / M_PI);
  EXPECT_NEAR(sample.fit(Kind::kPareto)->shape, (1 - q) / 2, 1e-3);
  EXPECT_NEAR(sample.fit(Kind::kPareto)->scale,
              std::sqrt(2 / M_PI) * (q + 1) / 2, 1e-3);
}

TEST(Laws, DistanceEqualsTheSlowOneWithTies) {
  auto values = draw(500, 7, [](auto& rng) { return exponential(rng); });
  for (float& v : values) v = std::round(4 * v) / 4;  // ties, and some zeros
  const FitSample sample(values);
  ASSERT_LT(sample.size(), values.size());
  for (const Kind kind : kLawKinds) {
    const Law law = *sample.fit(kind);
    EXPECT_NEAR(ks_distance(law, sample.magnitudes()),
                slow_ks(law, sample.magnitudes()), 1e-12)
        << name_of(kind);
  }
}

TEST(Laws, DistanceOfManyIsThatOfAll) {
  const auto values = draw(300'000, 8, [](auto& rng) {
    return std::normal_distribution<double>()(rng);
  });
  const FitSample sample(values);
  const Law law = *sample.fit(Kind::kDoubleExponential);
  double largest = 0;
  const auto n = static_cast<double>(sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double at = law.cdf(sample.magnitudes()[i]);
    largest = std::max({largest, std::abs(at - static_cast<double>(i) / n),
                        std::abs(at - static_cast<double>(i + 1) / n)});
  }
  EXPECT_NEAR(ks_distance(law, sample.magnitudes()), largest, 1.0 / 32768);
}

TEST(Laws, SaysNothingWhereDataSayNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& nothing : std::vector<std::vector<float>>{
           {}, {0, 0, 0, -0.0F}, {nan, inf, -inf, 0}}) {
    const FitSample sample(nothing);
    EXPECT_EQ(sample.size(), 0U);
    for (const Kind kind : kLawKinds) EXPECT_FALSE(sample.fit(kind));
    EXPECT_FALSE(hill_index(sample.magnitudes()));
  }
  const FitSample one(std::vector<float>{0, nan, -3});
  for (const Kind kind : kLawKinds) {
    EXPECT_EQ(one.fit(kind).has_value(), kind == Kind::kDoubleExponential);
  }
  EXPECT_EQ(one.fit(Kind::kDoubleExponential)->scale, 3);
}

TEST(Laws, OneMagnitudeIsNoGammaAndNoPareto) {
  const FitSample equal(std::vector<float>(50, 2.0F));
  for (const Kind kind : kLawKinds) {
    EXPECT_EQ(equal.fit(kind).has_value(), kind == Kind::kDoubleExponential);
  }
  std::vector<float> signs(50, 2.0F);
  for (std::size_t i = 0; i < signs.size(); i += 2) signs[i] = -2;
  const FitSample two(signs);
  EXPECT_TRUE(two.fit(Kind::kNormal) && two.fit(Kind::kLaplace));
  EXPECT_FALSE(two.fit(Kind::kGamma) || two.fit(Kind::kPareto));
  EXPECT_FALSE(hill_index(two.magnitudes()));
}

TEST(Laws, ScalesFromTinyToHuge) {
  const auto plain =
      draw(1000, 9, [](auto& rng) { return sign(rng) * exponential(rng); });
  const FitSample sample(plain);
  for (const double scale : {1e-37, 1e36}) {
    auto scaled = plain;
    for (float& v : scaled) v = static_cast<float>(scale * v);
    const FitSample other(scaled);
    for (const Kind kind : kLawKinds) {
      EXPECT_NEAR(ks_distance(*other.fit(kind), other.magnitudes()),
                  ks_distance(*sample.fit(kind), sample.magnitudes()), 1e-3)
          << name_of(kind) << " times " << scale;
    }
  }
}

TEST(Laws, HillFindsTheIndexOfATail) {
  for (const double index : {1.5, 3.0}) {
    const auto values = draw(kMany, 10, [&](auto& rng) {
      return sign(rng) * std::exp(exponential(rng) / index);
    });
    const auto found = hill_index(FitSample(values).magnitudes());
    ASSERT_TRUE(found);
    EXPECT_NEAR(*found / index, 1, 0.1);
  }
}

}  // namespace
}  // namespace sluice
