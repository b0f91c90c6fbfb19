#pragma once

#include <cstdint>

#include "sluice/core/device.h"

namespace sluice {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits
// whose outputs for consecutive inputs pass as random. All of Sluice's random
// choices are this function of (seed, tensor, step, counter), so every rank and
// every device draws the same numbers without sharing state.
SLUICE_HD constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

SLUICE_HD constexpr std::uint64_t mix64(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a) ^ b);
}

SLUICE_HD constexpr std::uint64_t mix64(std::uint64_t a, std::uint64_t b,
                                        std::uint64_t c) {
  return mix64(mix64(a, b) ^ c);
}

// A number in [0, n) from 64 random bits; bias below n / 2^64.
SLUICE_HD constexpr std::uint64_t bounded(std::uint64_t random,
                                          std::uint64_t n) {
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(random) * n) >> 64);
}

}  // namespace sluice
