#pragma once

#include "sluice/backend/cuda/wire_args.h"
#include "sluice/backend/cuda/wire_marks.cuh"

// Positions in rows that interleave, and in tiles, on their way to a message.

namespace sluice::cuda {

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
