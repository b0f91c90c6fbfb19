#include "sluice/study/laws.h"

#include <algorithm>
#include <cmath>

#include "sluice/sparsify/special_functions.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 5> kNames = {
    "normal", "laplace", "double-exponential", "gamma", "pareto"};

constexpr double kRootTwo = 1.41421356237309504880;
constexpr double kRootTwoPi = 2.50662827463100050242;
constexpr double kLargestShape = 1e4;
constexpr std::size_t kMostLooks = std::size_t{1} << 16;

template <class F>
double mean_over(std::span<const float> values, F&& f) {
  double sum = 0;
  for (const float v : values) sum += f(static_cast<double>(v));
  return sum / static_cast<double>(values.size());
}

// Of n - 1, as all here.
double variance(std::span<const float> values, double mean) {
  const auto n = static_cast<double>(values.size());
  const double square =
      mean_over(values, [&](double v) { return (v - mean) * (v - mean); });
  return square * n / (n - 1);
}

double normal_cdf(double z) { return std::erfc(-z / kRootTwo) / 2; }

double laplace_cdf(double z) {
  return z < 0 ? std::exp(z) / 2 : 1 - std::exp(-z) / 2;
}

// 1 - (1 + xi z)^(-1/xi), which ends at -1/xi where xi is below 0.
double pareto_tail(double xi, double z) {
  if (std::abs(xi) < 1e-9) return std::exp(-z);
  const double base = 1 + xi * z;
  return base > 0 ? std::exp(-std::log(base) / xi) : 0;
}

}  // namespace

std::string_view name_of(Law::Kind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view Law::name() const { return name_of(kind); }

double Law::cdf(double a) const {
  const double up = (a - location) / scale;
  const double down = (-a - location) / scale;
  switch (kind) {
    case Kind::kNormal:
      return normal_cdf(up) - normal_cdf(down);
    case Kind::kLaplace:
      return laplace_cdf(up) - laplace_cdf(down);
    case Kind::kDoubleExponential:
      return -std::expm1(-a / scale);
    case Kind::kGamma:
      return 1 - gamma_q(shape, a / scale);
    case Kind::kPareto:
      return 1 - pareto_tail(shape, a / scale);
  }
  return 0;
}

double Law::density(double a) const {
  const double up = (a - location) / scale;
  const double down = (-a - location) / scale;
  switch (kind) {
    case Kind::kNormal:
      return (std::exp(-up * up / 2) + std::exp(-down * down / 2)) /
             (scale * kRootTwoPi);
    case Kind::kLaplace:
      return (std::exp(-std::abs(up)) + std::exp(-std::abs(down))) /
             (2 * scale);
    case Kind::kDoubleExponential:
      return std::exp(-a / scale) / scale;
    case Kind::kGamma: {
      const double z = a / scale;
      return std::exp((shape - 1) * std::log(z) - z - log_gamma(shape)) / scale;
    }
    case Kind::kPareto: {
      const double z = a / scale;
      const double base = 1 + shape * z;
      return base > 0 ? pareto_tail(shape, z) / (base * scale) : 0;
    }
  }
  return 0;
}

FitSample::FitSample(std::span<const float> values) {
  for (const float v : values) {
    if (std::isfinite(v) && v != 0) values_.push_back(v);
  }
  std::sort(values_.begin(), values_.end());
  // Both signs are in order: no need to sort again.
  const auto positive = std::lower_bound(values_.begin(), values_.end(), 0.0F);
  std::vector<float> negative(std::make_reverse_iterator(positive),
                              values_.rend());
  for (float& v : negative) v = -v;
  magnitudes_.resize(values_.size());
  std::merge(negative.begin(), negative.end(), positive, values_.end(),
             magnitudes_.begin());
  if (size() > 0) mean_ = mean_over(magnitudes_, [](double a) { return a; });
}

std::optional<Law> FitSample::fit(Law::Kind kind) const {
  if (kind == Law::Kind::kDoubleExponential) {
    if (size() == 0) return {};
    return Law{kind, 0, mean_, 0};
  }
  if (size() < 2) return {};
  switch (kind) {
    case Law::Kind::kNormal:
      return fit_normal();
    case Law::Kind::kLaplace:
      return fit_laplace();
    case Law::Kind::kGamma:
      return fit_gamma();
    default:
      return fit_pareto();
  }
}

std::optional<Law> FitSample::fit_normal() const {
  if (values_.front() == values_.back()) return {};
  const double mean = mean_over(values_, [](double v) { return v; });
  return Law{Law::Kind::kNormal, mean, std::sqrt(variance(values_, mean)), 0};
}

std::optional<Law> FitSample::fit_laplace() const {
  if (values_.front() == values_.back()) return {};
  const std::size_t half = size() / 2;
  double median = values_[half];
  if (size() % 2 == 0) median = (median + values_[half - 1]) / 2;
  const double scale =
      mean_over(values_, [&](double v) { return std::abs(v - median); });
  return Law{Law::Kind::kLaplace, median, scale, 0};
}

std::optional<Law> FitSample::fit_gamma() const {
  const double s =
      -mean_over(magnitudes_, [&](double a) { return std::log(a / mean_); });
  if (!(s > 0)) return {};
  const double alpha =
      (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  if (alpha > kLargestShape) return {};
  return Law{Law::Kind::kGamma, 0, mean_ / alpha, alpha};
}

std::optional<Law> FitSample::fit_pareto() const {
  if (magnitudes_.front() == magnitudes_.back()) return {};
  const double q = mean_ * mean_ / variance(magnitudes_, mean_);
  return Law{Law::Kind::kPareto, 0, mean_ * (q + 1) / 2, (1 - q) / 2};
}

double ks_distance(const Law& law, std::span<const float> ascending) {
  const std::size_t n = ascending.size();
  const std::size_t stride = (n + kMostLooks - 1) / kMostLooks;
  double largest = 0;
  for (std::size_t i = 0; i < n; i += stride) {
    // Equal magnitudes are one jump, from those below to those up to it.
    const auto same =
        std::equal_range(ascending.begin(), ascending.end(), ascending[i]);
    const auto below = static_cast<double>(same.first - ascending.begin());
    const auto up_to = static_cast<double>(same.second - ascending.begin());
    const double at = law.cdf(ascending[i]);
    const double far = std::max(std::abs(at - below / static_cast<double>(n)),
                                std::abs(at - up_to / static_cast<double>(n)));
    largest = std::max(largest, far);
  }
  return largest;
}

std::optional<double> hill_index(std::span<const float> ascending,
                                 double share) {
  const auto n = static_cast<double>(ascending.size());
  const auto m = static_cast<std::size_t>(std::max(10.0, share * n));
  if (ascending.size() <= m) return {};
  const double base = ascending[ascending.size() - m - 1];
  const double mean = mean_over(ascending.last(m),
                                [&](double a) { return std::log(a / base); });
  if (!(mean > 0)) return {};
  return 1 / mean;
}

}  // namespace sluice
