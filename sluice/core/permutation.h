#pragma once

#include <cstdint>

#include "sluice/core/hash.h"

namespace sluice {

// A pseudo-random bijection of [0, n), given by a key: a Feistel network of six
// alternating rounds on ceil(log2 n) bits, walked until it lands below n. The
// first k images are k distinct uniform indices in O(k), equal wherever the key
// is equal. The wire depends on it: do not change it between versions.
class Permutation {
 public:
  SLUICE_HD Permutation(std::uint64_t n, std::uint64_t key) : n_(n) {
    const unsigned bits = n <= 4 ? 2 : bit_width_of(n - 1);
    low_bits_ = bits / 2;
    low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
    high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
    for (unsigned i = 0; i < kRounds; ++i) keys_[i] = mix64(key, i);
  }

  SLUICE_HD std::uint64_t operator()(std::uint64_t x) const {
    do {
      std::uint64_t low = x & low_mask_;
      std::uint64_t high = x >> low_bits_;
      for (unsigned i = 0; i < kRounds; i += 2) {
        low ^= round(high, i) & low_mask_;
        high ^= round(low, i + 1) & high_mask_;
      }
      x = (high << low_bits_) | low;
    } while (x >= n_);
    return x;
  }

 private:
  static constexpr unsigned kRounds = 6;

  SLUICE_HD std::uint64_t round(std::uint64_t x, unsigned i) const {
    const std::uint64_t h = (x + keys_[i]) * 0x9e3779b97f4a7c15ULL;
    return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ULL >> 32;
  }

  std::uint64_t n_;
  unsigned low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::uint64_t keys_[kRounds];
};

}  // namespace sluice
