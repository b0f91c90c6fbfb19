#pragma once

#include <array>
#include <cstdint>

namespace sluice::fuzz {

// What stands before the message in an input: the receiver's side of a decode.
struct Receiver {
  // The dense size is one of these plus `size`. Around 2^31 and 2^32 indices
  // outgrow 32 bits; the last ones are for overflows.
  static constexpr std::array<std::uint64_t, 6> kBases = {
      0,
      std::uint64_t{1} << 31,
      (std::uint64_t{1} << 32) - 8,
      std::uint64_t{1} << 32,
      std::uint64_t{1} << 40,
      ~std::uint64_t{0} - 0xffff};

  std::uint8_t patch = 0;  // odd: the header is repaired, see decode_fuzz.cpp
  std::uint8_t base = 0;   // which of kBases, modulo their number
  std::uint16_t size = 0;
  std::uint16_t capacity = 0;  // entries there is room for

  std::uint64_t dense_size() const {
    return kBases[base % kBases.size()] + size;
  }
};
static_assert(sizeof(Receiver) == 6);

}  // namespace sluice::fuzz
