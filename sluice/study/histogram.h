#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// Magnitudes by powers of two: bin i holds those from low * 2^(i / 4) to below
// low * 2^((i + 1) / 4), of which the last bin ends just above the largest.
// Entries that are 0 or not finite are in none.
struct MagnitudeHistogram {
  static constexpr int kPerOctave = 4;
  static constexpr int kOctaves = 20;
  static constexpr int kBins = kPerOctave * kOctaves;

  double low = 0;                     // 0: there is nothing to count
  std::uint64_t below = 0;            // smaller ones
  std::vector<std::uint64_t> counts;  // kBins, or none

  double edge(int bin) const;
};
MagnitudeHistogram count_magnitudes(std::span<const float> values);

// Values in equal bins from -reach to reach, six times their root mean square;
// what lies outside is in the first and the last. Entries that are not finite
// are in none.
struct SignedHistogram {
  static constexpr int kBins = 61;

  double reach = 0;                   // 0: there is nothing to count
  std::vector<std::uint64_t> counts;  // kBins, or none
};
SignedHistogram count_values(std::span<const float> values);

// What a tensor has of entries that carry little or nothing.
struct Sparsity {
  std::uint64_t entries = 0;
  std::uint64_t nonfinite = 0;
  double zeros = 0;  // share of entries that are exactly 0
  double below_1e3 =
      0;               // share below 1e-3 of the largest magnitude, 0 included
  double largest = 0;  // of the finite
  double norm = 0;     // l2, of the finite
};
Sparsity measure_sparsity(std::span<const float> values);

}  // namespace sluice
