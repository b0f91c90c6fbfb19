#pragma once

#include "sluice/backend/cuda/wire_args.h"
#include "sluice/backend/cuda/wire_common.cuh"

// Entries of rows that interleave, and of tiles, are sorted by marking them in
// a bitmap of the segment and reading that in order. It is left as zeros.

namespace sluice::cuda {

// How many marks each chunk of the segments' bitmaps has.
__device__ inline void count_marks(const std::uint32_t* marks,
                                   std::uint64_t chunks,
                                   std::uint32_t* counts) {
  for (std::uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    const auto mine =
        static_cast<unsigned>(__popc(marks[c * kChunkWords + threadIdx.x]));
    const unsigned sum = block_sum(mine);
    if (threadIdx.x == 0) counts[c] = sum;
  }
}

// Calls f(rank, bit) for all marks of chunk c, both counted from the first of
// their segment, whose first chunk is `first`; and clears them.
template <class F>
__device__ void for_marks(std::uint32_t* marks, const std::uint32_t* counts,
                          std::uint64_t first, std::uint64_t c, F f) {
  std::uint64_t before = 0;
  for (std::uint64_t i = first + threadIdx.x; i < c; i += kThreads) {
    before += counts[i];
  }
  before = block_sum(before);
  std::uint32_t& place = marks[c * kChunkWords + threadIdx.x];
  std::uint32_t word = place;
  if (word != 0) place = 0;
  unsigned total = 0;
  std::uint64_t rank =
      before + block_before(static_cast<unsigned>(__popc(word)), &total);
  const std::uint64_t bit = (c - first) * kChunkBits + 32 * threadIdx.x;
  for (; word != 0; word &= word - 1, ++rank) {
    f(rank, bit + static_cast<unsigned>(__ffs(word)) - 1);
  }
}

// The segment with a bitmap that has chunk c.
__device__ inline std::uint32_t segment_of_chunk(const WireSegment* segments,
                                                 std::uint32_t count,
                                                 std::uint64_t c) {
  return last_at_most(segments, count, c,
                      [](const WireSegment& s) { return s.chunks; });
}

__device__ inline std::uint64_t wide_stride(const RowBands& b) {
  return b.groups << b.shift;
}

// The bit of an element when groups follow each other, each with as many places
// as the widest.
__device__ inline std::uint64_t grouped_bit(const WireSegment& s,
                                            std::uint64_t offset) {
  const RowBands& b = s.bands;
  const std::uint64_t number = offset / (b.runs * b.stride);
  const std::uint64_t runs = min_of(b.runs, b.rest - number * b.runs);
  const std::uint64_t inside = offset - number * b.runs * b.stride;
  const std::uint64_t run = inside / b.stride;
  const std::uint64_t column = inside - run * b.stride;
  const std::uint64_t mask = (std::uint64_t{1} << b.shift) - 1;
  return number * b.runs * wide_stride(b) +
         (column >> b.shift) * (runs << b.shift) +
         (run << b.shift | (column & mask));
}

__global__ void __launch_bounds__(kThreads) mark_kernel(EncodeArgs a) {
  const std::uint64_t count = a.too_large ? 0 : a.starts[a.count];
  for (std::uint64_t i = thread_index(); i < count; i += thread_count()) {
    const std::uint32_t s = segment_of_entry(a.starts, 0, a.count, i);
    const WireSegment& segment = a.segments[s];
    const std::uint64_t offset = a.indices[i] - segment.base;
    if (!segment.strided || offset >= segment.size ||
        segment.entries != a.starts[s + 1] - a.starts[s]) {
      continue;
    }
    const std::uint64_t bit = grouped_bit(segment, offset);
    atomicOr(a.marks + segment.marks + bit / 32, 1U << (bit % 32));
  }
  for (std::uint64_t s = thread_index(); s < a.count; s += thread_count()) {
    a.bad[s] = 0;
  }
}

__global__ void __launch_bounds__(kThreads) count_marks_kernel(EncodeArgs a) {
  count_marks(a.marks, a.chunk_count, a.chunks);
}

// The positions, in the order of the groups; a segment is bad if one is not in
// the group that it must be in.
__global__ void __launch_bounds__(kThreads) collect_marks_kernel(EncodeArgs a) {
  for (std::uint64_t c = blockIdx.x; c < a.chunk_count; c += gridDim.x) {
    const std::uint32_t s = segment_of_chunk(a.segments, a.count, c);
    const WireSegment& segment = a.segments[s];
    const RowBands& b = segment.bands;
    for_marks(a.marks, a.chunks, segment.chunks, c,
              [&](std::uint64_t e, std::uint64_t bit) {
                const RowPlace place = place_of(segment, e);
                const std::uint64_t start =
                    place.start / b.stride * wide_stride(b) +
                    place.group * (place.runs << b.shift);
                if (bit - start < place.runs << b.shift) {
                  a.positions[segment.entries_before + e] =
                      static_cast<std::uint32_t>(bit - start);
                } else {
                  atomicOr(a.bad + s, 1U);
                }
              });
  }
}

}  // namespace sluice::cuda
