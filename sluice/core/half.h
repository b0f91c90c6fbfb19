#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "sluice/core/key.h"

namespace sluice {

// bf16: the upper half of an fp32, rounded to nearest, ties to even. A finite
// value never becomes infinite: it saturates at the largest finite bf16.
//
// Without branches and with signed compares, so that loops of it become vector
// instructions on any machine.
SLUICE_HD inline std::uint16_t to_bf16(float x) {
  constexpr auto kInf = static_cast<std::int32_t>(kInfKey);
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t key = bits & kMagnitudeMask;
  const auto order = static_cast<std::int32_t>(key);
  const std::uint32_t rounded = key + 0x7fffU + ((bits >> 16) & 1U);
  const bool over = order < kInf && static_cast<std::int32_t>(rounded) >= kInf;
  const std::uint32_t nan = order > kInf ? ~0U : 0U;
  const std::uint32_t out =
      (nan & (key | 0x400000U)) | (~nan & (rounded - (over ? 0x10000U : 0U)));
  return static_cast<std::uint16_t>(((bits & ~kMagnitudeMask) | out) >> 16);
}

SLUICE_HD inline float from_bf16(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

// IEEE binary16, rounded to nearest, ties to even. Finite values saturate at
// +-65504, so that what does not fit stays in the residual instead of turning
// into an infinity on the wire.
SLUICE_HD inline std::uint16_t to_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t key = bits & kMagnitudeMask;
  if (key > kInfKey) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (key == kInfKey) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (key >= 0x477fe000U) return static_cast<std::uint16_t>(sign | 0x7bffU);
  if (key < 0x38800000U) {
    // Below 2^-14 the result counts units of 2^-24; adding 0.5 aligns the fp32
    // mantissa with them and rounds to even in hardware.
    const float shifted = std::bit_cast<float>(key) + 0.5F;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = key - 0x38000000U + 0xfffU + ((key >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

SLUICE_HD inline float from_fp16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t rest = h & 0x7fffU;
  if (rest < 0x400U) {
    const float magnitude = std::ldexp(static_cast<float>(rest), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t exponent = rest >= 0x7c00U ? 0x70000000U : 0x38000000U;
  return std::bit_cast<float>(((rest << 13) + exponent) | sign);
}

}  // namespace sluice
