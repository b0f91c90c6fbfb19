#include "sluice/study/evidence.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

double squared(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum;
}

template <class Other>
double squared_distance(std::span<const double> a, std::span<const Other> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = a[i] - static_cast<double>(b[i]);
    sum += d * d;
  }
  return sum;
}

// The place of the entry that a share of all does not exceed.
std::size_t place_of(std::size_t n, std::size_t percent) {
  return (n * percent + 99) / 100 - 1;
}

}  // namespace

std::optional<Contraction> contraction(std::span<const float> x,
                                       std::span<const std::uint32_t> indices,
                                       std::span<const float> values) {
  double all = 0;
  double left = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    all += v * v;
    const bool sent = at < indices.size() && indices[at] == i;
    const double rest = sent ? v - static_cast<double>(values[at++]) : v;
    left += rest * rest;
  }
  if (!(all > 0)) return {};
  const double bound =
      1 - static_cast<double>(indices.size()) / static_cast<double>(x.size());
  return Contraction{left / all, bound, bound * bound};
}

std::optional<double> Evidence::delta() const {
  if (!(n2 > 0)) return {};
  return n1 / n2;
}

Evidence evidence(const Means& means, std::span<const float> again,
                  std::span<const float> applied, std::uint64_t k) {
  Evidence out;
  const auto n = static_cast<double>(means.inputs.size());
  out.n1 = squared_distance(means.inputs, applied);
  out.n2 =
      (1 - std::min(1.0, static_cast<double>(k) / n)) * squared(means.inputs);
  const double gradient = squared(means.gradients);
  if (!(gradient > 0)) return out;
  out.xi = std::sqrt(squared_distance(means.selected, again) / gradient);
  out.relative_error =
      std::sqrt(squared_distance(means.inputs, means.selected) / gradient);
  return out;
}

void Ages::sent(std::uint64_t step, std::span<const std::uint32_t> indices) {
  for (const std::uint32_t i : indices) {
    last_[i] = static_cast<std::uint32_t>(step);
  }
}

Ages::Quantiles Ages::quantiles(std::uint64_t step) const {
  Quantiles out;
  const std::size_t n = last_.size();
  if (n == 0) return out;
  // Ages are small numbers: counted rather than sorted.
  std::vector<std::uint64_t> count(step + 1);
  for (const std::uint32_t last : last_) ++count[step - last];
  const auto age_at = [&](std::size_t place) {
    std::uint64_t age = 0;
    for (std::uint64_t seen = count[0]; seen <= place; seen += count[age]) {
      ++age;
    }
    return age;
  };
  for (std::uint64_t age = 0; age <= step; ++age) {
    out.mean += static_cast<double>(age * count[age]) / static_cast<double>(n);
  }
  out.median = age_at(place_of(n, 50));
  out.p90 = age_at(place_of(n, 90));
  out.p99 = age_at(place_of(n, 99));
  out.oldest = age_at(n - 1);
  return out;
}

}  // namespace sluice
