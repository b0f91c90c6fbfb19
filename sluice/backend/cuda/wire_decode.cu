#include <algorithm>

#include "sluice/backend/cuda/wire_layout.cuh"
#include "sluice/backend/cuda/wire_read.cuh"
#include "sluice/backend/cuda/wire_read_rows.cuh"
#include "sluice/core/error.h"

namespace sluice::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) sum_chunks_kernel(DecodeArgs a) {
  const std::uint64_t chunks = a.head->chunks;
  for (std::uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    sum_chunk(a, c);
    if (a.mark_chunks > 0) mark_rows(a, c);
  }
  if (a.head->checksum == 0) return;
  const WireChecksum sum =
      sum_words(a.at<std::uint64_t>(0), a.head->bytes, 0xffffffffU);
  add_sum(sum, &a.head->products, &a.head->words);
}

__global__ void __launch_bounds__(kThreads) count_kernel(DecodeArgs a) {
  count_marks(a.marks, a.mark_chunks, a.mark_counts);
}

__global__ void __launch_bounds__(kThreads) read_kernel(DecodeArgs a) {
  const std::uint64_t chunks = a.head->chunks;
  for (std::uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const std::uint32_t p = part_of_chunk(a, c);
    const ReadPart& part = a.parts[p];
    switch (part.index_form) {
      case IndexForm::kEliasFano:
      case IndexForm::kBitmap:
        read_ones(a, p, part, c);
        break;
      case IndexForm::kBitpack:
        read_pack(a, p, part, c);
        break;
      case IndexForm::kRows:
        read_rows(a, p, part, c);
        break;
      case IndexForm::kDense:
      case IndexForm::kRaw32:
        read_direct(a, p, part, c);
        break;
    }
  }
  if (a.mark_chunks > 0) read_marks(a);
}

// Indices must ascend, over the borders of chunks too.
__device__ void check_order(const DecodeArgs& a) {
  const std::uint64_t count = a.head->count;
  for (std::uint64_t i = 1 + thread_index(); i < count; i += thread_count()) {
    if (a.indices[i] > a.indices[i - 1]) continue;
    const std::uint32_t p =
        last_at_most(a.parts, a.head->parts, i,
                     [](const ReadPart& part) { return part.entry; });
    if (a.parts[p].entry == i) continue;
    fail(a, failure(p, Stage::kOrder, WireError::kIndexOrder));
  }
}

__device__ void check_range(const DecodeArgs& a) {
  const std::uint32_t parts = a.head->parts;
  for (std::uint64_t p = thread_index(); p < parts; p += thread_count()) {
    const ReadPart& part = a.parts[p];
    if (part.count == 0) continue;
    const std::uint32_t* x = a.indices + part.entry;
    if (x[0] < part.base || x[part.count - 1] - part.base >= part.size) {
      fail(a, failure(static_cast<std::uint32_t>(p), Stage::kRange,
                      WireError::kIndexRange));
    }
  }
}

// Where the entries of each segment end, and whether its table is finite. By a
// warp.
__device__ void check_segment(const DecodeArgs& a, std::uint32_t s) {
  const std::uint32_t p =
      last_at_most(a.parts, a.head->parts, s,
                   [](const ReadPart& part) { return part.first; });
  const ReadPart& part = a.parts[p];
  const std::uint64_t end = a.segments[s].base + a.segments[s].size;
  const std::uint32_t* x = a.indices + part.entry;
  const std::uint64_t below =
      warp_search(part.count, [&](std::uint64_t i) { return x[i] < end; });
  if (lane() == 0) a.starts[s + 1] = part.entry + below;
  const unsigned size = part.value_form == ValueForm::kOne      ? 1
                        : part.value_form == ValueForm::kTwoBit ? 4
                                                                : 0;
  if (part.has_values && lane() < size) {
    const float* table = a.at<float>(part.values_at) + size * (s - part.first);
    if (!is_finite(table[lane()])) {
      fail(a, failure(p, Stage::kValues, WireError::kValueFinite));
    }
  }
}

// By the last block.
__device__ void tell_verdict(const DecodeArgs& a) {
  Count key = __ldcg(&a.head->error);
  if (a.head->checksum != 0) {
    const WireChecksum sum = {__ldcg(&a.head->products),
                              __ldcg(&a.head->words)};
    if (sum.fold(a.head->bytes) != a.head->checksum) {
      key = min_of(key, checksum_failure());
    }
  }
  const bool bad = key != kNoFailure;
  if (bad || a.head->parts == 0) {
    for (std::uint32_t s = threadIdx.x; s <= a.count; s += kThreads) {
      a.starts[s] = 0;
    }
  }
  if (threadIdx.x != 0) return;
  a.starts[0] = 0;
  DecodeResult result;
  result.error = bad ? static_cast<WireError>(key & 31U) : WireError::kNone;
  result.count = bad ? 0 : a.head->count;
  *a.result = result;
}

__global__ void __launch_bounds__(kThreads) check_kernel(DecodeArgs a) {
  if (a.head->parts > 0) {
    check_order(a);
    check_range(a);
    for (std::uint64_t s = warp_index(); s < a.count; s += warp_count()) {
      check_segment(a, static_cast<std::uint32_t>(s));
    }
  }
  if (is_last_block(&a.head->done)) tell_verdict(a);
}

// Chunks that any message can have: of bit strings, of bitmaps, of entries.
std::uint64_t most_chunks(std::uint64_t entries, std::uint64_t elements,
                          std::uint64_t segments) {
  return 3 * entries / kChunkBits + elements / kChunkBits +
         entries / kDirectChunk + 4 * (segments + 1);
}

}  // namespace

WireDecoder::WireDecoder()
    : blocks_(fitting_blocks(reinterpret_cast<const void*>(read_kernel))) {}

void WireDecoder::run(cudaStream_t stream, Uploads& uploads,
                      const DecodePass& pass) {
  require(pass.segments.size() < kMostParts, "[decode] a GPU takes fewer than ",
          kMostParts, " segments, got ", pass.segments.size());
  segments_.set(stream, uploads, pass.segments);
  DecodeArgs a{pass};
  a.segments = segments_.device();
  a.count = segments_.count();
  a.elements = segments_.size();
  a.in = pass.in;
  a.bytes = pass.bytes;
  a.size = pass.size;
  a.result = pass.result;
  // Words are read whole.
  if (reinterpret_cast<std::uintptr_t>(pass.in) % 8 != 0) {
    auto* aligned = aligned_.grow<std::byte>(pass.bytes);
    copy_bytes(stream, pass.in, aligned, nullptr, pass.bytes);
    a.in = aligned;
  }
  const std::uint64_t n = std::min(a.elements, kMostElements);
  const std::uint64_t entries = std::min<std::uint64_t>(n, a.capacity);
  a.head = head_.grow<DecodeHead>(1);
  a.parts = parts_.grow<ReadPart>(a.count + 1);
  a.offsets = offsets_.grow<std::uint32_t>(pack_blocks(entries) + a.count);
  a.sums = sums_.grow<std::uint64_t>(most_chunks(entries, n, a.count));
  a.mark_chunks = segments_.end().chunks;
  a.marks = marks_.grow<std::uint32_t>(segments_.end().marks);
  a.mark_counts = chunks_.grow<std::uint32_t>(a.mark_chunks);
  const unsigned blocks = wire_blocks(blocks_, pass.bytes);
  launch("to lay out a message", stream, 1, layout_kernel, a);
  launch("to sum up a message", stream, blocks, sum_chunks_kernel, a);
  if (a.mark_chunks > 0) {
    launch("to count marks", stream, blocks_, count_kernel, a);
  }
  launch("to read a message", stream, a.mark_chunks > 0 ? blocks_ : blocks,
         read_kernel, a);
  launch("to check a message", stream, blocks, check_kernel, a);
}

}  // namespace sluice::cuda
