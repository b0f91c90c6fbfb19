#pragma once

#include <cstdint>

#include "sluice/backend/pass.h"
#include "sluice/core/device.h"
#include "sluice/core/wire.h"

// The sizes of a message's sections, as far as they follow from numbers: one
// definition for the coders of all devices. See docs/wire.md.

namespace sluice {

inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;

// No section of this kind can carry the entries.
inline constexpr std::uint64_t kCannot = ~std::uint64_t{0};

// Entries of a block of IndexForm::kBitpack, which share a width.
inline constexpr std::uint64_t kPackBlock = 256;
SLUICE_HD constexpr std::uint64_t pack_blocks(std::uint64_t count) {
  return (count + kPackBlock - 1) / kPackBlock;
}
// Of so many blocks about kPackSample are looked at first, each `step`-th.
inline constexpr std::uint64_t kPackSample = 32;
SLUICE_HD constexpr std::uint64_t pack_step(std::uint64_t blocks) {
  return blocks / kPackSample + 1;
}
// Bytes of the section, from the words of `measured` blocks.
SLUICE_HD constexpr std::uint64_t pack_bytes(std::uint64_t blocks,
                                             std::uint64_t measured,
                                             std::uint64_t words) {
  if (measured > 0) words = words * blocks / measured;
  return 8 * (words_for(8 * blocks) + words);
}

// Elias-Fano: the low bits of each index packed, then its high part as the
// distance to the one before, in unary. Within half a bit of the entropy for
// random positions.
struct EliasFanoShape {
  SLUICE_HD constexpr EliasFanoShape(std::uint64_t n, std::uint64_t k)
      : low(k == 0 ? 0 : bit_width_of(n / k) - 1),
        low_words(words_for(k * low)),
        high_words(k == 0 ? 0 : words_for(k + ((n - 1) >> low) + 1)) {}
  SLUICE_HD constexpr std::uint64_t bytes() const {
    return 8 * (low_words + high_words);
  }

  unsigned low;
  std::uint64_t low_words;
  std::uint64_t high_words;
};

// The smallest form whose size follows from the numbers alone.
struct CountedForm {
  IndexForm form = IndexForm::kRaw32;
  std::uint64_t bytes = 0;
};
SLUICE_HD constexpr CountedForm counted_form(std::uint64_t n,
                                             std::uint64_t count) {
  // On a tie the first wins: the cheaper ones to decode come first.
  if (count == n) return {IndexForm::kDense, 0};
  CountedForm best = {IndexForm::kEliasFano, EliasFanoShape(n, count).bytes()};
  const std::uint64_t map = 8 * words_for(n);
  if (map < best.bytes) best = {IndexForm::kBitmap, map};
  if (4 * count < best.bytes) best = {IndexForm::kRaw32, 4 * count};
  return best;
}

// The bytes of a message: *size of them, or all if that is null. One that says
// it is longer than what is there is not there at all.
SLUICE_HD constexpr std::uint64_t message_bytes(std::uint64_t bytes,
                                                const std::uint64_t* size) {
  if (size == nullptr) return bytes;
  return *size > bytes ? 0 : *size;
}

// The checks 2 to 9 of docs/wire.md, of a message of at least a header.
SLUICE_HD constexpr WireError check_header(const WireHeader& h,
                                           std::uint64_t bytes, std::uint64_t n,
                                           std::uint64_t segments,
                                           std::uint64_t capacity) {
  if (h.magic != WireHeader::kMagic) return WireError::kMagic;
  if (h.version != WireHeader::kVersion) return WireError::kVersion;
  if (h.reserved != 0) return WireError::kReserved;
  if (h.dense_size != n || n > kMostElements) return WireError::kDenseSize;
  if (h.parts > segments || (h.parts == 0) != (h.count == 0)) {
    return WireError::kParts;
  }
  if (h.count > n) return WireError::kCount;
  if (h.count > capacity) return WireError::kCapacity;
  if ((bytes - sizeof(h)) / sizeof(WirePart) < h.parts) {
    return WireError::kLengths;
  }
  return WireError::kNone;
}

// Check 10, of a part behind which so many segments and entries are left;
// `size_of(segments)` are the elements of its first ones.
template <class SizeOf>
SLUICE_HD constexpr WireError check_part(const WirePart& part,
                                         std::uint64_t segments,
                                         std::uint64_t entries,
                                         SizeOf size_of) {
  if (part.index_form >= kIndexFormNames.size() ||
      part.value_form >= kValueFormNames.size()) {
    return WireError::kForm;
  }
  if (part.reserved != 0) return WireError::kReserved;
  if (part.segments == 0 || part.segments > segments) return WireError::kParts;
  if (part.count > entries || part.count > size_of(part.segments)) {
    return WireError::kCount;
  }
  return WireError::kNone;
}

// Entries of a segment if it goes by rows: 0 if it has no rows, kCannot if its
// layout does not cover it.
std::uint64_t row_entries(const SegmentForm& segment);

// Bits of one of its positions.
unsigned row_bits(const RowLayout& layout);

// The rows or tiles of a layout as bands: stretches of `runs` * `stride`
// elements that follow each other, each cut into groups (rows or tiles) of
// 2^shift neighbouring columns.
struct RowBands {
  std::uint64_t runs = 0;  // of a band; the last has what is left
  std::uint64_t rest = 0;  // of all bands together
  std::uint64_t stride = 1;
  unsigned shift = 0;
  std::uint64_t groups = 1;
  std::uint64_t last_width = 1;  // of the last group; others have 2^shift

  bool operator==(const RowBands&) const = default;
};
RowBands bands_of(const RowLayout& layout);

}  // namespace sluice
