#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// The wire format of a sparse block. All numbers are little endian.
//
//   header (48 bytes) | index section | value section
//
// The sections' contents are described at IndexForm and ValueForm; docs/wire.md
// has the whole of it.

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
  kRaw64,
};

inline constexpr std::array<std::string_view, 5> kValueFormNames = {
    "fp32", "bf16", "fp16", "one", "two-bit"};
inline constexpr std::array<std::string_view, 7> kIndexFormNames = {
    "dense", "elias-fano", "bitpack", "rows", "bitmap", "raw32", "raw64"};

constexpr std::string_view name_of(ValueForm form) {
  return kValueFormNames[static_cast<std::size_t>(form)];
}
constexpr std::string_view name_of(IndexForm form) {
  return kIndexFormNames[static_cast<std::size_t>(form)];
}

struct WireHeader {
  static constexpr std::uint32_t kMagic = 0x43554c53;  // "SLUC"
  static constexpr std::uint16_t kVersion = 1;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint8_t index_form = 0;
  std::uint8_t value_form = 0;
  std::uint64_t dense_size = 0;
  std::uint64_t count = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint32_t reserved = 0;
  std::uint32_t checksum = 0;  // of everything, with this field 0
};
static_assert(sizeof(WireHeader) == 48);

// The first check of a message that failed.
enum class WireError : std::uint32_t {
  kNone,
  kTruncated,
  kMagic,
  kVersion,
  kForm,
  kReserved,
  kDenseSize,
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
