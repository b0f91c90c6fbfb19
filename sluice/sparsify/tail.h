#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/backend/rule.h"
#include "sluice/core/key.h"

namespace sluice {

// Counts, means and variances of the magnitudes above a threshold, read off a
// histogram: one statistics pass answers every count loop and every stage.
//
// Inside a bin magnitudes count as uniform. At 32 bins per octave that puts the
// counts of smooth data within 0.1 % (tests/sparsify/statistical_test.cpp).
class Tail {
 public:
  // `n` elements stand behind the answer's sample.
  Tail(const Answer& answer, std::uint64_t n)
      : histogram_(answer.histogram),
        scale_(answer.moments.count > 0
                   ? static_cast<double>(n) /
                         static_cast<double>(answer.moments.count +
                                             answer.moments.nonfinite)
                   : 0) {
    const auto top = magnitude_key(static_cast<float>(answer.moments.max_abs));
    end_ = std::min<std::size_t>((top >> kHistogramShift) + 1, kHistogramBins);
  }

  struct Excess {
    double count = 0;  // scaled to n elements
    double mean = 0;   // of a - t over a > t
    double variance = 0;
  };

  double count_above(double t) const { return above(t, false).count; }
  Excess excess_above(double t) const { return above(t, true); }

 private:
  static double edge(std::size_t bin) {
    return static_cast<double>(
        key_value(static_cast<std::uint32_t>(bin << kHistogramShift)));
  }

  Excess above(double t, bool moments) const {
    Excess out;
    if (histogram_ == nullptr) return out;
    const std::size_t first =
        magnitude_key(static_cast<float>(t)) >> kHistogramShift;
    double sum = 0;
    double squares = 0;
    for (std::size_t b = first; b < end_; ++b) {
      if (histogram_[b] == 0) continue;
      const double low = edge(b);
      const double high = b + 1 < kHistogramBins - 32 ? edge(b + 1) : 2 * low;
      const double from = b == first ? std::clamp(t, low, high) : low;
      const double part =
          static_cast<double>(histogram_[b]) * ((high - from) / (high - low));
      out.count += part;
      if (!moments) continue;
      const double middle = (from + high) / 2 - t;
      const double width = high - from;
      sum += part * middle;
      squares += part * (middle * middle + width * width / 12);
    }
    if (moments && out.count > 0) {
      out.mean = sum / out.count;
      // Unbiased; fewer than two entries have no spread.
      out.variance =
          out.count > 1
              ? std::max(0.0, squares - out.count * out.mean * out.mean) /
                    (out.count - 1)
              : 0;
    }
    out.count *= scale_;
    return out;
  }

  const std::uint32_t* histogram_;
  double scale_;
  std::size_t end_ = 0;
};

}  // namespace sluice
