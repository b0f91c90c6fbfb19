#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sluice/core/device.h"
#include "sluice/core/key.h"

// A histogram of magnitudes and the sums over its tails: a backend makes them
// once per segment, and every stage of a rule looks them up.

namespace sluice {

// Log-scale histogram of magnitude keys: 32 bins per octave.
inline constexpr unsigned kHistogramShift = 18;
inline constexpr std::size_t kHistogramBins = std::size_t{1}
                                              << (31 - kHistogramShift);

SLUICE_HD inline std::size_t bin_of(double x) {
  return x > 0 ? magnitude_key(static_cast<float>(x)) >> kHistogramShift : 0;
}

// The smallest magnitude of a bin.
SLUICE_HD inline double bin_edge(std::size_t bin) {
  constexpr std::size_t kInfBin = kInfKey >> kHistogramShift;
  if (bin >= kInfBin) return 0x1p128;
  return static_cast<double>(
      key_value(static_cast<std::uint32_t>(bin << kHistogramShift)));
}

// Sums over the elements in one bin and all bins above it. Inside a bin
// magnitudes count as uniform.
struct TailSums {
  double count;
  double sum;      // of |x|
  double squares;  // of |x|^2
  double logs;     // of ln |x|; bin 0, which holds the zeros, adds nothing
};

// The part of `count` elements in [from, to).
SLUICE_HD inline TailSums uniform_sums(double count, double from, double to) {
  const double middle = (from + to) / 2;
  const double width = to - from;
  return {count, count * middle, count * (middle * middle + width * width / 12),
          0};
}

// at[b] holds the sums of bin b and above for first <= b <= end; the bins below
// `first` and from `end` on are empty. Null where no histogram was asked for.
struct Tails {
  const TailSums* at = nullptr;
  std::size_t first = 0;
  std::size_t end = 0;

  SLUICE_HD TailSums from(std::size_t bin) const {
    if (at == nullptr) return {};
    return at[bin < first ? first : bin > end ? end : bin];
  }
};

// The suffix sums of a histogram, one by one from the top; `room` has
// kHistogramBins + 1 entries.
SLUICE_HD inline Tails sum_tails(const std::uint32_t* histogram,
                                 TailSums* room) {
  Tails tails = {room, 0, kHistogramBins};
  while (tails.end > 0 && histogram[tails.end - 1] == 0) --tails.end;
  while (tails.first < tails.end && histogram[tails.first] == 0) ++tails.first;
  TailSums sums = {};
  room[tails.end] = sums;
  for (std::size_t b = tails.end; b-- > tails.first;) {
    if (histogram[b] != 0) {
      const auto count = static_cast<double>(histogram[b]);
      const TailSums bin = uniform_sums(count, bin_edge(b), bin_edge(b + 1));
      sums.count += bin.count;
      sums.sum += bin.sum;
      sums.squares += bin.squares;
      if (b > 0) sums.logs += count * std::log(bin.sum / count);
    }
    room[b] = sums;
  }
  return tails;
}

}  // namespace sluice
