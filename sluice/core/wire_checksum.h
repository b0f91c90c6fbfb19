#pragma once

#include <cstdint>

#include "sluice/core/hash.h"

namespace sluice {

// The checksum of a message: two sums over its 64-bit words, of which one knows
// where each word stands. Sums, so that any number of threads can share the
// work; a change of one word always changes the second, and what goes unseen is
// one change in 2^32.
struct WireChecksum {
  std::uint64_t products = 0;
  std::uint64_t words = 0;

  // Word i of the message; the last is filled up with zeros.
  SLUICE_HD constexpr void add(std::uint64_t i, std::uint64_t word) {
    const std::uint64_t mixed = word ^ (i + 1) * 0x9e3779b97f4a7c15ULL;
    products += (mixed & 0xffffffffU) * (mixed >> 32);
    words += word;
  }

  // Of a message of so many bytes; never 0.
  SLUICE_HD constexpr std::uint32_t fold(std::uint64_t bytes) const {
    const std::uint64_t h = mix64(mix64(products, words), bytes);
    const auto folded = static_cast<std::uint32_t>(h ^ (h >> 32));
    return folded == 0 ? 1 : folded;
  }
};

}  // namespace sluice
