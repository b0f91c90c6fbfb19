#pragma once

#include <bit>
#include <cstdint>

#include "sluice/core/device.h"

namespace sluice {

// The bits of |x|, which order as |x| does. Unlike float comparison the order
// is total: Inf sorts above every finite key and NaN above Inf, so one unsigned
// compare keeps both out of a selection.
inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffffU;
inline constexpr std::uint32_t kInfKey = 0x7f800000U;

SLUICE_HD inline std::uint32_t magnitude_key(float x) {
  return std::bit_cast<std::uint32_t>(x) & kMagnitudeMask;
}

SLUICE_HD inline float key_value(std::uint32_t key) {
  return std::bit_cast<float>(key);
}

// The smallest key whose value is above (or, for `threshold_key`, at least) t;
// t < 0 gives 0, NaN and +Inf give kInfKey, which selects nothing.
SLUICE_HD inline std::uint32_t threshold_key(double t) {
  if (!(t < 3.5e38)) return kInfKey;
  if (t <= 0) return 0;
  const float f = static_cast<float>(t);
  std::uint32_t key = magnitude_key(f);
  if (key < kInfKey && static_cast<double>(f) < t) ++key;
  return key < kInfKey ? key : kInfKey;
}

SLUICE_HD inline std::uint32_t above_key(double t) {
  if (t < 0) return 0;
  const std::uint32_t key = threshold_key(t);
  if (key < kInfKey && static_cast<double>(key_value(key)) == t) return key + 1;
  return key;
}

}  // namespace sluice
