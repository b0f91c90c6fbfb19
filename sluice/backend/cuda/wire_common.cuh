#pragma once

#include "sluice/backend/cuda/block.cuh"
#include "sluice/backend/cuda/wire.h"
#include "sluice/core/wire_checksum.h"

// What writing and reading of messages share.

namespace sluice::cuda {

using Count = unsigned long long;  // what atomics take

// Words of 32 bits of a bit string that a block takes at a time.
inline constexpr std::uint64_t kChunkWords = kThreads;
inline constexpr std::uint64_t kChunkBits = 32 * kChunkWords;

__device__ inline std::uint64_t warp_index() {
  return std::uint64_t{blockIdx.x} * kWarps + warp();
}
__device__ inline std::uint64_t warp_count() {
  return std::uint64_t{gridDim.x} * kWarps;
}
__device__ inline std::uint64_t thread_index() {
  return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
}
__device__ inline std::uint64_t thread_count() {
  return std::uint64_t{gridDim.x} * kThreads;
}

// Whether this block is the last of the grid to come here; it sees what the
// others have written if it reads by __ldcg().
__device__ inline bool is_last_block(std::uint32_t* done) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1U) + 1 == gridDim.x;
  __syncthreads();
  __threadfence();
  return last;
}

// The last of `count` > 0 things whose `key` is at most x; the first if none.
template <class T, class Key>
__device__ std::uint32_t last_at_most(const T* all, std::uint32_t count,
                                      std::uint64_t x, Key key) {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (key(all[middle]) <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// The segment among [first, last) that holds an element of the bucket, or an
// entry of the block.
__device__ inline std::uint32_t segment_of(const WireSegment* segments,
                                           std::uint32_t first,
                                           std::uint32_t last,
                                           std::uint64_t element) {
  return first + last_at_most(segments + first, last - first, element,
                              [](const WireSegment& s) { return s.base; });
}
__device__ inline std::uint32_t segment_of_entry(const std::uint64_t* starts,
                                                 std::uint32_t first,
                                                 std::uint32_t last,
                                                 std::uint64_t entry) {
  return first + last_at_most(starts + first, last - first, entry,
                              [](std::uint64_t s) { return s; });
}

// By a whole warp: the first i below `count` for which `below(i)` is false, if
// it is true up to there and false from there on.
template <class Below>
__device__ std::uint64_t warp_search(std::uint64_t count, Below below) {
  std::uint64_t low = 0;
  std::uint64_t high = count;
  while (low < high) {
    const std::uint64_t step = (high - low + 31) / 32;
    const std::uint64_t probe = low + lane() * step;
    const unsigned yes = __ballot_sync(kAll, probe < high && below(probe));
    if (yes == 0) break;
    const auto count_yes = static_cast<unsigned>(__popc(yes));
    const std::uint64_t next = low + count_yes * step;
    low += (count_yes - 1) * step + 1;
    if (next < high) high = next;
  }
  return low;
}

// Where entry e of a segment by rows belongs.
struct RowPlace {
  std::uint64_t band = 0;   // number of its first entry
  std::uint64_t start = 0;  // first element of the band, in the segment
  std::uint64_t runs = 0;   // of the band
  std::uint64_t group = 0;
  std::uint64_t band_entries = 0;
};

__device__ inline RowPlace place_of(const WireSegment& s, std::uint64_t e) {
  const RowBands& b = s.bands;
  const auto group_k = [&](std::uint64_t runs, std::uint64_t width) {
    return min_of(s.k, runs * width);
  };
  const std::uint64_t wide = std::uint64_t{1} << b.shift;
  const auto entries = [&](std::uint64_t runs) {
    return (b.groups - 1) * group_k(runs, wide) + group_k(runs, b.last_width);
  };
  const std::uint64_t full = entries(min_of(b.runs, b.rest));
  const std::uint64_t number = e / full;
  RowPlace out;
  out.band = number * full;
  out.start = number * b.runs * b.stride;
  out.runs = min_of(b.runs, b.rest - number * b.runs);
  out.band_entries = entries(out.runs);
  const std::uint64_t k =
      b.groups == 1 ? group_k(out.runs, b.last_width) : group_k(out.runs, wide);
  out.group = min_of((e - out.band) / k, b.groups - 1);
  return out;
}

// This thread's share of the checksum of a message of so many bytes, of whose
// word 1, which holds the checksum, only the bits of `mask` count.
__device__ inline WireChecksum sum_words(const std::uint64_t* message,
                                         std::uint64_t bytes,
                                         std::uint64_t mask) {
  WireChecksum sum;
  const std::uint64_t words = bytes / 8;
  for (std::uint64_t i = thread_index(); i <= words; i += thread_count()) {
    std::uint64_t word = 0;
    if (i < words) {
      word = message[i];
    } else {
      const auto* tail = reinterpret_cast<const std::uint8_t*>(message + i);
      for (unsigned b = 0; b < bytes % 8; ++b) {
        word |= std::uint64_t{tail[b]} << (8 * b);
      }
    }
    sum.add(i, i == 1 ? word & mask : word);
  }
  return sum;
}

// Adds what the threads of a block have.
__device__ inline void add_sum(const WireChecksum& sum, Count* products,
                               Count* words) {
  const std::uint64_t p = block_sum(sum.products);
  const std::uint64_t w = block_sum(sum.words);
  if (threadIdx.x != 0) return;
  atomicAdd(products, static_cast<Count>(p));
  atomicAdd(words, static_cast<Count>(w));
}

// As many blocks as a message of so many bytes keeps busy, but not more than
// `most`.
unsigned wire_blocks(unsigned most, std::uint64_t bytes);

// Copies *size bytes, or `most` of them if that is null.
void copy_bytes(cudaStream_t stream, const std::byte* from, std::byte* to,
                const std::uint64_t* size, std::uint64_t most);

}  // namespace sluice::cuda
