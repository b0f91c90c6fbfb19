#pragma once

#include "sluice/backend/cuda/wire_common.cuh"

// What the kernels of the decoder are given, what they leave to each other, and
// which failed check comes first.

namespace sluice::cuda {

struct ReadPart {
  std::uint32_t first = 0;  // segments
  std::uint32_t last = 0;
  std::uint64_t base = 0;  // of its elements
  std::uint64_t size = 0;
  std::uint64_t entry = 0;  // its first
  std::uint64_t count = 0;
  IndexForm index_form = IndexForm::kDense;
  ValueForm value_form = ValueForm::kFp32;
  bool has_values = false;      // its value section is there
  std::uint32_t low = 0;        // bits of elias-fano's low parts
  std::uint64_t at = 0;         // byte of its index section
  std::uint64_t bits_at = 0;    // of its bit string, or of bitpack's blocks
  std::uint64_t values_at = 0;  // of its value section
  std::uint64_t words = 0;      // 32-bit words of the bit string
  std::uint64_t blocks = 0;     // of bitpack, that are there
  std::uint64_t slot = 0;       // of its blocks among all parts'
  std::uint64_t chunk = 0;      // number of its first chunk
  std::uint64_t chunks = 0;
};

struct DecodeHead {
  std::uint32_t parts = 0;
  std::uint32_t checksum = 0;  // 0: there is none
  std::uint32_t done = 0;      // blocks
  std::uint32_t unsorted = 0;  // a tile whose positions do not ascend
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t chunks = 0;
  Count error = 0;  // a key; see failure()
  Count products = 0;
  Count words = 0;
};

struct DecodeArgs : BlockSink {
  const WireSegment* segments = nullptr;
  std::uint32_t count = 0;
  std::uint64_t elements = 0;
  const std::byte* in = nullptr;  // at a word
  std::uint64_t bytes = 0;
  const std::uint64_t* size = nullptr;
  DecodeResult* result = nullptr;

  DecodeHead* head = nullptr;
  ReadPart* parts = nullptr;
  std::uint32_t* offsets = nullptr;  // 64-bit words before a block of bitpack
  std::uint64_t* sums = nullptr;     // of a chunk: ones, or distances
  std::uint32_t* marks = nullptr;
  std::uint32_t* mark_counts = nullptr;
  std::uint64_t mark_chunks = 0;

  template <class T>
  __device__ const T* at(std::uint64_t byte) const {
    return reinterpret_cast<const T*>(in + byte);
  }
};

// Failed checks as numbers, of which the smallest is of the check that comes
// first: those of the header, the checksum, those of the parts in turn, what is
// left behind them.
inline constexpr Count kNoFailure = ~Count{0};
inline constexpr std::uint64_t kMostParts = std::uint64_t{1} << 20;

enum class Stage : std::uint8_t {
  kPadding,
  kIndices,  // structure and range, while they are read
  kOrder,
  kRange,
  kValueSection,
  kValues,
};

__device__ inline Count header_failure(WireError error) {
  return static_cast<Count>(error);
}
__device__ inline Count checksum_failure() {
  return Count{1} << 62 | static_cast<Count>(WireError::kChecksum);
}
__device__ inline Count left_failure() {
  return Count{3} << 62 | static_cast<Count>(WireError::kLengths);
}
// `at` and then `later` order those of one stage.
__device__ inline Count failure(std::uint32_t part, Stage stage,
                                WireError error, std::uint64_t at = 0,
                                bool later = false) {
  return Count{2} << 62 | static_cast<Count>(part) << 42 |
         static_cast<Count>(stage) << 38 |
         static_cast<Count>(at & 0xffffffffU) << 6 |
         static_cast<Count>(later ? 1 : 0) << 5 | static_cast<Count>(error);
}
__device__ inline void fail(const DecodeArgs& a, Count key) {
  atomicMin(&a.head->error, key);
}

}  // namespace sluice::cuda
