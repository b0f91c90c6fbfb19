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

  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;

  // Word i of the message; the last is filled up with zeros.
  SLUICE_HD constexpr void add(std::uint64_t i, std::uint64_t word) {
    add_keyed((i + 1) * kStep, word);
  }
  // The same with (i + 1) * kStep, which loops can add up. Always inlined, for
  // kernels of several instruction sets.
  [[gnu::always_inline]] SLUICE_HD constexpr void add_keyed(
      std::uint64_t key, std::uint64_t word) {
    const std::uint64_t mixed = word ^ key;
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
