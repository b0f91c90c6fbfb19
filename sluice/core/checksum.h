#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sluice/core/hash.h"

namespace sluice {

// Four independent multiplicative hashes over 64-bit words, folded to 32 bits.
// Each step is a bijection of its lane, so what goes unseen is one change in
// 2^32, and it runs at memory speed on any machine. Part of the wire.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    const std::size_t words = bytes.size() / 8;
    std::size_t i = 0;
    for (; i + 4 <= words; i += 4) {
      for (std::size_t l = 0; l < 4; ++l) step(l, word(bytes, i + l));
    }
    for (; i < words; ++i) step(i % 4, word(bytes, i));
    std::uint64_t tail = bytes.size();
    for (std::size_t b = words * 8; b < bytes.size(); ++b) {
      tail = tail << 8 | static_cast<std::uint64_t>(bytes[b]);
    }
    step(0, tail);
  }

  std::uint32_t fold() const {
    const std::uint64_t h =
        mix64(mix64(lane_[0], lane_[1]), lane_[2], lane_[3]);
    return static_cast<std::uint32_t>(h ^ (h >> 32));
  }

 private:
  static std::uint64_t word(std::span<const std::byte> bytes, std::size_t i) {
    std::uint64_t w = 0;
    std::memcpy(&w, bytes.data() + 8 * i, 8);
    return w;
  }
  void step(std::size_t l, std::uint64_t w) {
    lane_[l] = (lane_[l] ^ w) * 0x9e3779b97f4a7c15ULL;
  }

  std::uint64_t lane_[4] = {0x9ae16a3b2f90404fULL, 0xc949d7c7509e6557ULL,
                            0xff51afd7ed558ccdULL, 0xc4ceb9fe1a85ec53ULL};
};

}  // namespace sluice
