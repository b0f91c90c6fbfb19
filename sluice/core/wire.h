#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sluice/core/device.h"

// The wire format of a sparse block. All numbers are little endian.
//
//   header (32 bytes) | parts (16 bytes each) | sections of each part
//
// A part covers segments that follow each other and has an index section and a
// value section, described at IndexForm and ValueForm. Sender and receiver know
// the segments, so these do not travel; docs/wire.md has the whole of it.

namespace sluice {

// How values travel. The lossy forms round the block's values beforehand and
// leave the remainder in the residual, so the codec itself is lossless.
enum class ValueForm : std::uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kOne,     // one value per segment
  kTwoBit,  // a table of four per segment and two bits per entry
};

// How sorted indices travel.
enum class IndexForm : std::uint8_t {
  kDense,      // all of them: nothing is sent
  kEliasFano,  // low bits packed, high bits in unary
  kBitpack,    // deltas in blocks of 256, each block at its own width
  kRows,       // position inside a row or tile, k per row
  kBitmap,     // one bit per element
  kRaw32,
};

inline constexpr std::array<std::string_view, 5> kValueFormNames = {
    "fp32", "bf16", "fp16", "one", "two-bit"};
inline constexpr std::array<std::string_view, 6> kIndexFormNames = {
    "dense", "elias-fano", "bitpack", "rows", "bitmap", "raw32"};

constexpr std::string_view name_of(ValueForm form) {
  return kValueFormNames[static_cast<std::size_t>(form)];
}
constexpr std::string_view name_of(IndexForm form) {
  return kIndexFormNames[static_cast<std::size_t>(form)];
}

// The form of that name among those that round each value by itself. Throws
// std::invalid_argument, beginning with "[`owner`]".
ValueForm value_form(std::string_view owner, std::string_view name);

struct WireHeader {
  static constexpr std::uint32_t kMagic = 0x43554c53;  // "SLUC"
  static constexpr std::uint16_t kVersion = 3;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t reserved = 0;
  std::uint32_t parts = 0;
  std::uint32_t checksum = 0;  // of everything, with this field 0; 0: none
  std::uint64_t dense_size = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(WireHeader) == 32);

struct WirePart {
  std::uint32_t segments =
      0;  // that it covers, behind those of the part before
  std::uint8_t index_form = 0;
  std::uint8_t value_form = 0;
  std::uint16_t reserved = 0;
  std::uint64_t count = 0;
};
static_assert(sizeof(WirePart) == 16);

// 64-bit words of so many bits.
SLUICE_HD constexpr std::uint64_t words_for(std::uint64_t bits) {
  return (bits + 63) / 64;
}

// Bytes of a part's value section.
SLUICE_HD constexpr std::uint64_t value_bytes(std::uint64_t count,
                                              std::uint64_t segments,
                                              ValueForm form) {
  switch (form) {
    case ValueForm::kFp32:
      return 4 * count;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      return 2 * count;
    case ValueForm::kOne:
      return 4 * segments;
    case ValueForm::kTwoBit:
      return 16 * segments + 8 * words_for(2 * count);
  }
  return 0;
}

// The first check of a message that failed.
enum class WireError : std::uint32_t {
  kNone,
  kTruncated,
  kMagic,
  kVersion,
  kForm,
  kReserved,
  kDenseSize,
  kParts,
  kCount,
  kCapacity,
  kLengths,
  kChecksum,
  kIndexSection,
  kIndexOrder,
  kIndexRange,
  kValueSection,
  kValueFinite,
};

// Which check it is, and what must hold.
std::string_view describe(WireError error);

}  // namespace sluice
