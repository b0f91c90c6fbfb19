#include "sluice/study/histogram.h"

#include <algorithm>
#include <cmath>

namespace sluice {

double MagnitudeHistogram::edge(int bin) const {
  return low * std::exp2(static_cast<double>(bin) / kPerOctave);
}

MagnitudeHistogram count_magnitudes(std::span<const float> values) {
  MagnitudeHistogram out;
  const double largest = measure_sparsity(values).largest;
  if (largest == 0) return out;
  out.counts.resize(MagnitudeHistogram::kBins);
  // A hair above the largest, so that it is inside.
  out.low = largest * (1 + 1e-9) * std::exp2(-MagnitudeHistogram::kOctaves);
  for (const float v : values) {
    const double a = std::abs(static_cast<double>(v));
    if (!std::isfinite(a) || a == 0) continue;
    const double place =
        std::floor(MagnitudeHistogram::kPerOctave * std::log2(a / out.low));
    if (place < 0) {
      ++out.below;
    } else {
      const int bin =
          std::min(static_cast<int>(place), MagnitudeHistogram::kBins - 1);
      ++out.counts[static_cast<std::size_t>(bin)];
    }
  }
  return out;
}

SignedHistogram count_values(std::span<const float> values) {
  SignedHistogram out;
  const Sparsity all = measure_sparsity(values);
  if (all.norm == 0) return out;
  out.counts.resize(SignedHistogram::kBins);
  const auto finite = static_cast<double>(all.entries - all.nonfinite);
  out.reach = 6 * all.norm / std::sqrt(finite);
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double place = (static_cast<double>(v) / out.reach + 1) / 2;
    const double bin = std::clamp(std::floor(place * SignedHistogram::kBins),
                                  0.0, SignedHistogram::kBins - 1.0);
    ++out.counts[static_cast<std::size_t>(bin)];
  }
  return out;
}

Sparsity measure_sparsity(std::span<const float> values) {
  Sparsity out;
  out.entries = values.size();
  double squares = 0;
  for (const float v : values) {
    if (!std::isfinite(v)) {
      ++out.nonfinite;
      continue;
    }
    const double a = std::abs(static_cast<double>(v));
    out.largest = std::max(out.largest, a);
    squares += a * a;
  }
  out.norm = std::sqrt(squares);
  if (values.empty()) return out;
  std::uint64_t zeros = 0;
  std::uint64_t small = 0;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    const double a = std::abs(static_cast<double>(v));
    zeros += a == 0 ? 1 : 0;
    small += a == 0 || a < 1e-3 * out.largest ? 1 : 0;
  }
  const auto n = static_cast<double>(values.size());
  out.zeros = static_cast<double>(zeros) / n;
  out.below_1e3 = static_cast<double>(small) / n;
  return out;
}

}  // namespace sluice
