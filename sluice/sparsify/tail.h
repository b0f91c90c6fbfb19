#pragma once

#include <cstdint>

#include "sluice/backend/rule.h"

namespace sluice {

// Counts, means and variances of the magnitudes above a threshold, looked up in
// the sums that a backend made once: every count loop and every stage costs the
// same few operations.
//
// Inside a bin magnitudes count as uniform. At 32 bins per octave that puts the
// counts of smooth data within 0.1 % (tests/sparsify/statistical_test.cpp).
class Tail {
 public:
  // `n` elements stand behind the answer's sample.
  SLUICE_HD Tail(const Answer& answer, std::uint64_t n)
      : tails_(answer.tails),
        scale_(answer.moments.count > 0
                   ? static_cast<double>(n) /
                         static_cast<double>(answer.moments.count +
                                             answer.moments.nonfinite)
                   : 0) {}

  struct Excess {
    double count = 0;  // scaled to n elements
    double mean = 0;   // of a - t over a > t
    double variance = 0;
  };

  SLUICE_HD double count_above(double t) const {
    return sums_above(t).count * scale_;
  }

  SLUICE_HD Excess excess_above(double t) const {
    const TailSums s = sums_above(t);
    if (!(s.count > 0)) return {};
    const double sum = s.sum - t * s.count;
    const double squares = s.squares - 2 * t * s.sum + t * t * s.count;
    Excess out = {s.count * scale_, sum / s.count, 0};
    // Unbiased; fewer than two entries have no spread.
    if (s.count > 1) {
      out.variance = max_of(0.0, squares - sum * out.mean) / (s.count - 1);
    }
    return out;
  }

 private:
  // Of the bin that t lies in, the part above t.
  SLUICE_HD TailSums sums_above(double t) const {
    const std::size_t bin = bin_of(t);
    TailSums sums = tails_.from(bin + 1);
    const double inside = tails_.from(bin).count - sums.count;
    if (!(inside > 0)) return sums;
    const double low = bin_edge(bin);
    const double high = bin_edge(bin + 1);
    const double from = clamp_to(t, low, high);
    const TailSums part =
        uniform_sums(inside * ((high - from) / (high - low)), from, high);
    sums.count += part.count;
    sums.sum += part.sum;
    sums.squares += part.squares;
    return sums;
  }

  Tails tails_;
  double scale_;
};

}  // namespace sluice
