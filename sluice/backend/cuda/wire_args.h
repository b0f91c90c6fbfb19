#pragma once

#include "sluice/backend/cuda/wire.h"
#include "sluice/core/wire_checksum.h"

// What the kernels of the encoder are given, and what they leave to each other.

namespace sluice::cuda {

// A run of segments while parts are planned: what decides whether it can join
// its neighbour.
struct Element {
  std::uint32_t first = 0;  // segment
  std::uint32_t code = 0;   // kFilled | kByRows | kRowless | value form
};

// Segments that travel together.
struct CodedPart {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t base = 0;  // of its elements
  std::uint64_t size = 0;
  std::uint64_t entry = 0;  // its first
  std::uint64_t count = 0;
  std::uint64_t unit = 0;       // number of its first block of kPackBlock
  std::uint64_t row_bytes = 0;  // kCannot: they are not k per row

  // What the entries say.
  unsigned long long pack_words = 0;    // of all blocks of bitpack
  unsigned long long sample_words = 0;  // of those that are looked at first
  std::uint32_t not_rows = 0;
  std::uint32_t not_table = 0;

  IndexForm index_form = IndexForm::kEliasFano;
  ValueForm value_form = ValueForm::kFp32;
  IndexForm plain_form = IndexForm::kEliasFano;  // where rows do not fit
  std::uint64_t plain_bytes = 0;
  std::uint64_t at = 0;  // byte of its index section
  std::uint64_t values_at = 0;
  std::uint64_t end = 0;

  // Tiles of words, numbered over all parts: of its low parts, widths,
  // positions or raw indices; of its bit string, or the blocks of bitpack; of
  // its values.
  std::uint64_t tile = 0;
  std::uint64_t first_tiles = 0;
  std::uint64_t second_tiles = 0;
  std::uint64_t low_words = 0;  // 32 bits each, of elias-fano's low parts
  std::uint64_t words = 0;      // of the bit string
  std::uint32_t low = 0;
};

struct EncodeHead {
  std::uint32_t parts = 0;
  std::uint32_t fails = 0;     // a form cannot carry the block
  std::uint32_t measured = 0;  // blocks of a kernel that are done
  std::uint32_t summed = 0;
  std::uint64_t count = 0;
  std::uint64_t units = 0;
  std::uint64_t tiles = 0;
  std::uint64_t total = 0;          // bytes; 0: it does not fit
  unsigned long long products = 0;  // of the checksum
  unsigned long long words = 0;
};

struct EncodeArgs {
  const WireSegment* segments = nullptr;
  std::uint32_t count = 0;  // segments
  bool too_large = false;   // more elements than indices can count
  std::uint64_t size = 0;
  WireOptions options;
  const std::uint32_t* indices = nullptr;
  const float* values = nullptr;
  const std::uint64_t* starts = nullptr;
  std::uint32_t* out = nullptr;
  std::uint64_t capacity = 0;  // bytes
  std::uint64_t* written = nullptr;

  EncodeHead* head = nullptr;
  CodedPart* parts = nullptr;           // one per segment
  Element* elements = nullptr;          // two per segment
  std::uint32_t* mismatches = nullptr;  // segments + 1: not k per row, before
  std::uint8_t* widths = nullptr;       // of blocks of bitpack
  std::uint32_t* offsets = nullptr;     // 64-bit words before these
  std::uint32_t* positions = nullptr;   // by rows
  std::uint32_t* tables = nullptr;      // four per segment
  std::uint32_t* marks = nullptr;       // a bit per place in a row; zeros
  std::uint32_t* chunks = nullptr;      // of the marks: how many are set
  std::uint64_t chunk_count = 0;
  std::uint32_t* bad = nullptr;  // segments that are not k per row after all
};

// 32-bit words that a warp writes at a time.
inline constexpr std::uint64_t kWireTile = 128;

}  // namespace sluice::cuda
