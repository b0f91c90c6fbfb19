#pragma once

#include "sluice/backend/cuda/rank_search.cuh"
#include "sluice/backend/cuda/source.cuh"

// The k largest of every row or tile, of any shape. What is selected is marked
// in a bitmap and collected later, so that rows may interleave.

namespace sluice::cuda {

// Up to here a warp keeps a row in registers.
inline constexpr std::uint32_t kWarpRow = 1024;
// Up to here a block keeps it in shared memory.
inline constexpr std::uint32_t kCachedRow = 8192;

struct Group {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::uint64_t width = 0;   // elements before a jump; 0: none
  std::uint64_t stride = 1;  // between elements, or of the jumps

  __device__ std::uint64_t at(std::uint64_t i) const {
    if (width == 0) return start + i * stride;
    return start + i / width * stride + i % width;
  }
};

SLUICE_HD inline bool is_tiled(const SegmentTask& task) {
  return task.kind == SelectKind::kTiles;
}

SLUICE_HD inline std::uint64_t group_count(const SegmentTask& task) {
  constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;
  constexpr std::uint64_t kSize = RowGeometry::kTileSize;
  const RowGeometry& rows = task.rows;
  if (!is_tiled(task)) return rows.slabs * rows.stride;
  if (rows.length == 1) return (rows.stride + kSize - 1) / kSize;
  return (rows.length + kEdge - 1) / kEdge *
         ((rows.stride + kEdge - 1) / kEdge);
}

SLUICE_HD inline std::uint64_t most_per_group(const SegmentTask& task) {
  constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;
  const RowGeometry& rows = task.rows;
  if (!is_tiled(task)) return rows.length;
  if (rows.length == 1) {
    return min_of<std::uint64_t>(rows.stride, RowGeometry::kTileSize);
  }
  return min_of<std::uint64_t>(rows.length, kEdge) *
         min_of<std::uint64_t>(rows.stride, kEdge);
}

// What one block does at a time: a group, or one per warp.
SLUICE_HD inline std::uint64_t unit_count(const SegmentTask& task) {
  const std::uint64_t groups = group_count(task);
  if (most_per_group(task) > kWarpRow) return groups;
  return (groups + kWarps - 1) / kWarps;
}

__device__ inline Group group_of(const SegmentTask& task, std::uint64_t g) {
  constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;
  constexpr std::uint64_t kSize = RowGeometry::kTileSize;
  const RowGeometry& rows = task.rows;
  if (!is_tiled(task)) {
    return {g / rows.stride * rows.length * rows.stride + g % rows.stride,
            rows.length, 0, rows.stride};
  }
  if (rows.length == 1) {
    return {g * kSize, min_of<std::uint64_t>(kSize, rows.stride - g * kSize), 0,
            1};
  }
  const std::uint64_t across = (rows.stride + kEdge - 1) / kEdge;
  const std::uint64_t top = g / across * kEdge;
  const std::uint64_t left = g % across * kEdge;
  const std::uint64_t width = min_of<std::uint64_t>(kEdge, rows.stride - left);
  const std::uint64_t height = min_of<std::uint64_t>(kEdge, rows.length - top);
  return {top * rows.stride + left, width * height, width, rows.stride};
}

__device__ inline void mark(const SelectArgs& a, const Segment& s,
                            std::uint64_t at) {
  atomicOr(a.marks + s.words + at / 32, 1U << (at % 32));
}

// Accumulates kCount elements of a group from the i-th on, `step` apart, all
// loaded before any is stored: the compiler cannot know that the memories do
// not overlap. keys: of each, or 0 where there is none or it is not finite: as
// of zeros, which are never taken.
template <unsigned kCount>
__device__ __forceinline__ void take_in(const Source& source,
                                        const Group& group, std::uint64_t i,
                                        unsigned step, double& mass,
                                        unsigned& bad,
                                        std::uint32_t (&keys)[kCount]) {
  float x[kCount];
  float g[kCount];
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    const std::uint64_t e = i + j * step;
    const bool inside = e < group.size;
    const std::uint64_t at = group.at(inside ? e : 0);
    x[j] = inside && source.memory != nullptr ? source.memory[at] : 0.0F;
    g[j] = inside && source.gradient != nullptr ? source.gradient[at] : 0.0F;
  }
  if (source.gradient != nullptr) {
#pragma unroll
    for (unsigned j = 0; j < kCount; ++j) {
      const float added = source.gamma * g[j];
      x[j] = source.memory == nullptr ? added : source.beta * x[j] + added;
    }
  }
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    const std::uint64_t e = i + j * step;
    keys[j] = 0;
    if (e >= group.size) continue;
    if (magnitude_key(x[j]) >= kInfKey) {
      ++bad;
      continue;
    }
    keys[j] = magnitude_key(x[j]);
    if (source.memory == nullptr) {
      mass += fabs(static_cast<double>(x[j]));
    } else if (source.gradient != nullptr) {
      source.memory[group.at(e)] = x[j];
    }
  }
}

// Where the mass of a group that has no memory goes: the tile of its first
// element has a sum of its own, to which groups add in any order: of `lost`,
// and of nothing else, last bits may differ from run to run.
__device__ inline void add_mass(const SelectArgs& a, std::uint32_t segment,
                                std::uint64_t at, double mass) {
  atomicAdd(a.tile_mass + a.first_tiles[segment] + at / kTile, mass);
}

// How many of a warp's keys reach `key`.
template <unsigned kKeys>
__device__ __forceinline__ unsigned reach(const std::uint32_t (&keys)[kKeys],
                                          std::uint32_t key) {
  unsigned count = 0;
#pragma unroll
  for (unsigned j = 0; j < kKeys; ++j) count += keys[j] >= key ? 1U : 0U;
  return __reduce_add_sync(kAll, count);
}

// The k-th largest of a key per lane, k <= 32.
__device__ inline std::uint32_t nth_of_lanes(std::uint32_t x, unsigned k) {
  for (unsigned size = 2; size <= 32; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      const std::uint32_t other = __shfl_xor_sync(kAll, x, stride);
      const bool wants_high =
          ((lane() & stride) == 0) == ((lane() & size) == 0);
      x = wants_high ? max_of(x, other) : min_of(x, other);
    }
  }
  return __shfl_sync(kAll, x, k - 1);
}

// Bits of 32 elements of a contiguous row.
__device__ inline void mark_word(const SelectArgs& a, const Segment& s,
                                 std::uint64_t at, std::uint32_t bits) {
  std::uint32_t* words = a.marks + s.words + at / 32;
  const unsigned shift = at % 32;
  atomicOr(words, bits << shift);
  if (shift > 0 && bits >> (32 - shift) != 0) {
    atomicOr(words + 1, bits >> (32 - shift));
  }
}

// A group of at most 32 * kKeys elements, by one warp.
template <unsigned kKeys>
__device__ __forceinline__ void select_warp_group(const SelectArgs& a,
                                                  std::uint32_t segment,
                                                  const Group& group) {
  const Segment& s = a.segments[segment];
  const Source source = source_of(a, s, a.works[segment]);
  const auto n = static_cast<std::uint32_t>(group.size);
  std::uint32_t keys[kKeys];
  double mass = 0;
  unsigned bad = 0;
  take_in(source, group, lane(), 32, mass, bad, keys);
  std::uint32_t highest = 0;
#pragma unroll
  for (unsigned j = 0; j < kKeys; ++j) highest = max_of(highest, keys[j]);
  const std::uint32_t top = __reduce_max_sync(kAll, highest);
  bad = __reduce_add_sync(kAll, bad);
  auto k = static_cast<unsigned>(min_of<std::uint64_t>(s.task.rows.k, n));
  std::uint32_t low = 1;
  unsigned at_low = 0;
  bool done = false;
  if (k > 32) {
    at_low = reach(keys, low);
    k = min_of(k, at_low);
  } else {
    // k lanes have one that reaches the k-th of the lanes' largest; few others
    // do, and the search goes on among those. If that is 0, all there are.
    constexpr unsigned kEach = 4;
    low = max_of(nth_of_lanes(highest, k), 1U);
    unsigned mine = 0;
#pragma unroll
    for (unsigned j = 0; j < kKeys; ++j) mine += keys[j] >= low ? 1U : 0U;
    unsigned at = warp_before(mine, &at_low);
    k = min_of(k, at_low);
    if (at_low <= 32 * kEach) {
      std::uint32_t* list = shared_words() + warp() * 32 * kEach;
#pragma unroll
      for (unsigned j = 0; j < kKeys; ++j) {
        if (keys[j] >= low) list[at++] = keys[j];
      }
      __syncwarp();
      std::uint32_t few[kEach];
#pragma unroll
      for (unsigned j = 0; j < kEach; ++j) {
        few[j] = j * 32 + lane() < at_low ? list[j * 32 + lane()] : 0;
      }
      __syncwarp();
      low = bisect([&](std::uint32_t key) { return reach(few, key); }, k, low,
                   top, at_low);
      done = true;
    }
  }
  if (!done) {
    low = bisect([&](std::uint32_t key) { return reach(keys, key); }, k, low,
                 top, at_low);
  }
  unsigned quota = at_low == k ? n : k - reach(keys, low + 1);
  const bool flat = group.width == 0 && group.stride == 1;
#pragma unroll
  for (unsigned j = 0; j < kKeys; ++j) {
    bool take = keys[j] >= low;
    if (at_low != k) {
      const unsigned ties = __ballot_sync(kAll, keys[j] == low);
      const unsigned before =
          static_cast<unsigned>(__popc(ties & ((1U << lane()) - 1)));
      take = keys[j] > low || (keys[j] == low && before < quota);
      quota -= min_of(quota, static_cast<unsigned>(__popc(ties)));
    }
    if (flat) {
      const unsigned bits = __ballot_sync(kAll, take);
      if (bits != 0 && lane() == 0) {
        mark_word(a, s, group.start + j * 32, bits);
      }
    } else if (take) {
      mark(a, s, group.at(j * 32 + lane()));
    }
  }
  if (s.task.memory == nullptr) {
    mass = warp_sum(mass);
    if (lane() == 0) add_mass(a, segment, group.start, mass);
  }
  if (lane() == 0 && bad > 0) {
    atomicAdd(&a.works[segment].nonfinite,
              static_cast<unsigned long long>(bad));
  }
}

// A group of any size, by one block: a radix search of the key.
__device__ inline void select_block_group(const SelectArgs& a,
                                          std::uint32_t segment,
                                          const Group& group) {
  static_assert(kCachedRow + kDigitBins <= kSharedWords);
  std::uint32_t* cache = shared_words();
  std::uint32_t* bins = cache + kCachedRow;
  const Segment& s = a.segments[segment];
  const Source source = source_of(a, s, a.works[segment]);
  const bool cached = group.size <= kCachedRow;
  Source later = source;  // once the memory holds acc
  if (later.memory != nullptr) later.gradient = nullptr;
  std::uint32_t* hidden = a.row_bits + s.words;
  unsigned bad = 0;
  unsigned there = 0;  // finite and not zero
  double mass = 0;
  const auto key_at = [&](std::uint64_t i) {
    if (cached) return cache[i];
    const std::uint64_t at = group.at(i);
    if (bad > 0 && bit_at(hidden, at)) return 0U;
    const float x = later.at(at);
    return magnitude_key(x) >= kInfKey ? 0U : magnitude_key(x);
  };
  constexpr unsigned kBatch = 8;
  for (std::uint64_t from = threadIdx.x; from < group.size;
       from += kBatch * kThreads) {
    std::uint32_t keys[kBatch];
    const unsigned so_far = bad;
    take_in(source, group, from, kThreads, mass, bad, keys);
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const std::uint64_t i = from + j * kThreads;
      if (i >= group.size) break;
      there += keys[j] > 0 ? 1U : 0U;
      if (cached) {
        cache[i] = keys[j];
      } else if (bad > so_far && keys[j] == 0) {
        atomicOr(hidden + group.at(i) / 32, 1U << (group.at(i) % 32));
      }
    }
  }
  bad = block_sum(bad);
  const std::uint64_t k =
      min_of<std::uint64_t>(s.task.rows.k, block_sum(there));
  std::uint64_t rank = k;
  std::uint32_t prefix = 0;
  std::uint32_t shift = 32;
  std::uint64_t at_cut = 0;
  while (shift > 0 && k > 0) {
    const std::uint32_t above = shift;
    shift = shift > 11 ? shift - 11 : 0;
    for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) bins[b] = 0;
    __syncthreads();
    for (std::uint64_t i = threadIdx.x; i < group.size; i += kThreads) {
      const std::uint32_t key = key_at(i);
      if (key == 0) continue;
      if (above < 32 && key >> above != prefix) continue;
      atomicAdd(bins + (key >> shift & ((1U << (above - shift)) - 1)), 1U);
    }
    __syncthreads();
    const Found found = find_bin(bins, kDigitBins, rank);
    rank -= found.above;
    at_cut = found.inside;
    prefix = prefix << (above - shift) | found.bin;
  }
  const std::uint32_t cut = k > 0 ? prefix : ~0U;
  const bool tied = rank < at_cut;
  std::uint64_t quota = rank;
  const std::uint64_t whole = (group.size + kThreads - 1) / kThreads * kThreads;
  for (std::uint64_t i = threadIdx.x; i < whole; i += kThreads) {
    const std::uint32_t key = i < group.size ? key_at(i) : 0;
    bool take = key >= cut;
    if (tied) {  // the same for all threads
      unsigned ties = 0;
      const unsigned before = block_before(key == cut ? 1U : 0U, &ties);
      take = key > cut || (key == cut && before < quota);
      quota -= min_of<std::uint64_t>(quota, ties);
    }
    if (take) mark(a, s, group.at(i));
  }
  if (!cached && bad > 0) {
    __syncthreads();
    for (std::uint64_t i = threadIdx.x; i < group.size; i += kThreads) {
      atomicAnd(hidden + group.at(i) / 32, ~(1U << (group.at(i) % 32)));
    }
  }
  mass = block_sum(mass);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (s.task.memory == nullptr) add_mass(a, segment, group.start, mass);
  if (bad > 0) {
    atomicAdd(&a.works[segment].nonfinite,
              static_cast<unsigned long long>(bad));
  }
}

template <bool kByBlock>
__device__ inline void select_unit(const SelectArgs& a, std::uint32_t segment,
                                   std::uint64_t unit) {
  const SegmentTask& task = a.segments[segment].task;
  if constexpr (kByBlock) {
    select_block_group(a, segment, group_of(task, unit));
  } else {
    const std::uint64_t g = unit * kWarps + warp();
    if (g >= group_count(task)) return;
    const Group group = group_of(task, g);
    if (group.size <= 128) {
      select_warp_group<4>(a, segment, group);
    } else if (group.size <= 512) {
      select_warp_group<16>(a, segment, group);
    } else {
      select_warp_group<32>(a, segment, group);
    }
  }
}

}  // namespace sluice::cuda
