#pragma once

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

}  // namespace sluice::cuda
