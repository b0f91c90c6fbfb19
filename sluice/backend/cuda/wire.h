#pragma once

#include <cstdint>
#include <vector>

#include "sluice/backend/cuda/runtime.h"
#include "sluice/backend/pass.h"
#include "sluice/backend/wire_shape.h"

// Messages on the GPU; docs/wire.md has the format.

namespace sluice::cuda {

// One segment as the kernels see it. One more stands behind the last: where the
// bucket ends.
struct WireSegment {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;         // by rows: row_entries()
  std::uint64_t entries_before = 0;  // by rows, of the segments before it
  std::uint64_t bits_before = 0;     // of the positions of these
  std::uint64_t cannot_before = 0;   // how many of them cannot go by rows
  std::uint64_t marks = 0;           // first word of its bitmap, if strided
  std::uint64_t chunks = 0;          // kChunkWords of these, before it
  std::uint64_t k = 0;               // entries of a row or tile
  RowBands bands{};
  std::uint32_t bits = 0;  // of a position
  ValueForm values = ValueForm::kFp32;
  bool sums = false;
  bool strided = false;  // by rows that interleave, or by tiles

  bool operator==(const WireSegment&) const = default;
};

// The segments of the last passes of a stream, in device memory.
class WireSegments {
 public:
  // Sends them unless they are those of the last call.
  void set(cudaStream_t stream, Uploads& uploads,
           std::span<const SegmentForm> forms);

  const WireSegment* device() const { return device_; }
  std::uint32_t count() const { return count_; }
  // Elements; more than kMostElements if they are too many.
  std::uint64_t size() const { return size_; }
  const WireSegment& end() const { return host_[count_]; }
  bool strided() const { return strided_; }
  bool tables() const { return tables_; }

 private:
  std::vector<WireSegment> host_;
  std::vector<WireSegment> next_;
  Scratch scratch_;
  const WireSegment* device_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint64_t size_ = 0;
  bool strided_ = false;
  bool tables_ = false;
};

// Writes messages: the bytes that cpu::wire::Coder writes. A kernel of one
// block plans the parts, one measures what depends on the entries and settles
// forms and places, one writes, warps whole tiles of words, and one sums up.
// The host knows nothing but the segments.
class WireEncoder {
 public:
  WireEncoder();
  void run(cudaStream_t stream, Uploads& uploads, const EncodePass& pass);

 private:
  unsigned measure_blocks_;
  unsigned write_blocks_;
  WireSegments segments_;
  Scratch head_, parts_, elements_, mismatches_, widths_, offsets_, positions_,
      tables_, marks_, chunks_, bad_, aligned_;
};

// Reads messages that anyone may have sent, with the verdicts of
// cpu::wire::Coder: the checks of all entries run at once, and the first of
// those that failed, in the order of docs/wire.md, is the one that is named.
class WireDecoder {
 public:
  WireDecoder();
  void run(cudaStream_t stream, Uploads& uploads, const DecodePass& pass);

 private:
  unsigned blocks_;
  WireSegments segments_;
  Scratch head_, parts_, offsets_, sums_, marks_, chunks_, aligned_;
};

}  // namespace sluice::cuda
