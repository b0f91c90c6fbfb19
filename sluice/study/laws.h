#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// Which law the entries of a gradient follow, seen by their magnitudes.

namespace sluice {

// A fitted law of x, asked about a = |x|. Of entries that are exactly 0 it says
// nothing.
//
//   normal              location: mean; scale: standard deviation (n - 1)
//   laplace             location: median; scale: mean of |x - median|
//   double-exponential  Laplace around 0; scale: mean of a
//   gamma               of a: shape alpha, scale beta
//   pareto              generalised, of a from 0 on: shape xi, scale
//
// The last three are SIDCo's (MLSys'21), fitted as it does: the mean; Minka's
// closed form from s = ln(mean a) - mean(ln a), alpha = (3 - s + sqrt((s - 3)^2
// + 24 s)) / (12 s), beta = mean / alpha; and moments, q = mean^2 / variance,
// xi = (1 - q) / 2, scale = mean (q + 1) / 2, so that xi < 1/2.
struct Law {
  enum class Kind { kNormal, kLaplace, kDoubleExponential, kGamma, kPareto };

  Kind kind = Kind::kNormal;
  double location = 0;
  double scale = 1;
  double shape = 0;

  std::string_view name() const;
  // P(|x| <= a) and its derivative, for a >= 0.
  double cdf(double a) const;
  double density(double a) const;
};

inline constexpr std::array kLawKinds = {
    Law::Kind::kNormal, Law::Kind::kLaplace, Law::Kind::kDoubleExponential,
    Law::Kind::kGamma, Law::Kind::kPareto};
std::string_view name_of(Law::Kind kind);

// What laws are fitted to: the entries that are finite and not 0.
class FitSample {
 public:
  explicit FitSample(std::span<const float> values);

  std::size_t size() const { return magnitudes_.size(); }
  // Ascending.
  const std::vector<float>& magnitudes() const { return magnitudes_; }

  // Nothing where the data do not determine the law: fewer than two entries (of
  // double-exponential: none), all of them equal in what the law is fitted to,
  // or a gamma of shape above 1e4, which is as good as one value.
  std::optional<Law> fit(Law::Kind kind) const;

 private:
  std::optional<Law> fit_normal() const;
  std::optional<Law> fit_laplace() const;
  std::optional<Law> fit_gamma() const;
  std::optional<Law> fit_pareto() const;

  std::vector<float> values_;      // ascending
  std::vector<float> magnitudes_;  // ascending
  double mean_ = 0;                // of the magnitudes
};

// The largest distance between the law and the share of magnitudes up to a,
// over all a (Kolmogorov and Smirnov). `ascending` must not be empty. Of more
// than 2^16 magnitudes every so-manieth is looked at, which is off by less than
// 2^-15.
double ks_distance(const Law& law, std::span<const float> ascending);

// Hill's estimate of the index of the tail, P(a > t) ~ t^-index, from the
// largest `share` of the magnitudes, at least 10 of them: one over the mean of
// ln(a / next below). The smaller, the heavier. Nothing if there are not so
// many, or all of those are equal.
std::optional<double> hill_index(std::span<const float> ascending,
                                 double share = 0.01);

}  // namespace sluice
