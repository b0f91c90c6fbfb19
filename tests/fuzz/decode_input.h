#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/backend/pass.h"

namespace sluice::fuzz {

// What stands before the message in an input: the receiver's side of a decode.
struct Receiver {
  static constexpr std::size_t kMostSegments = 6;
  // The first segment's size is one of these plus what its kind says: around
  // 2^31 and 2^32 indices outgrow 32 bits, the last are for overflows.
  static constexpr std::array<std::uint64_t, 6> kBases = {
      0,
      std::uint64_t{1} << 31,
      (std::uint64_t{1} << 32) - 8,
      std::uint64_t{1} << 32,
      std::uint64_t{1} << 40,
      ~std::uint64_t{0} - 0xffff};

  std::uint8_t patch = 0;      // odd: the headers are repaired
  std::uint8_t base = 0;       // which of kBases, modulo their number
  std::uint16_t size = 0;      // of the first segment, above its base
  std::uint16_t capacity = 0;  // entries there is room for
  std::uint16_t segments = 0;
  // One byte for each of the others; see form().
  std::array<std::uint8_t, 8> kinds = {};

  // A plain segment, rows or tiles, of any values.
  static SegmentForm form(std::uint8_t kind) {
    SegmentForm form;
    form.values = static_cast<ValueForm>(kind % 5U);
    const std::size_t a = 1U + kind / 5U % 5U * 17U;
    const std::size_t b = 1U + kind / 25U % 3U * 40U;
    form.size = 2 * a * b;
    const std::size_t shape = kind / 75U;
    if (shape == 1) form.rows = {{2, a, b, 1U + kind % 3U}, false};
    if (shape == 2) form.rows = {{1, 2 * a, b, 1U + kind % 9U}, true};
    return form;
  }
  std::vector<SegmentForm> forms() const {
    std::vector<SegmentForm> all;
    for (std::size_t s = 0; s < segments % (kMostSegments + 1); ++s) {
      all.push_back(form(kinds[s]));
    }
    const std::uint64_t first = kBases[base % kBases.size()] + size;
    if (first > 0) all.insert(all.begin(), {first, ValueForm::kFp32, {}});
    return all;
  }
};
static_assert(sizeof(Receiver) == 16);

}  // namespace sluice::fuzz
