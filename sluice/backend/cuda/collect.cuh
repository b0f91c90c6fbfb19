#pragma once

#include "sluice/backend/cuda/resolve.cuh"

// How many entries of each segment a warp takes, and how many others take
// before it: a warp collects a run of tiles that follow each other, whatever
// segments they are of.

namespace sluice::cuda {

__device__ inline bool is_marked(const Segment& s, const Work& w) {
  return w.by_rows != 0 || s.task.kind == SelectKind::kListed;
}

// Whether its rows have written lists of their own, in the order of indices.
__device__ inline bool is_direct(const Segment& s, const Work& w) {
  return w.by_rows != 0 && s.lists != 0;
}

__device__ inline bool takes_ties(const Work& w) {
  return w.bracket.ties && w.few == 0 && w.cut == w.bracket.lo;
}

// Tiles [begin, end) of one segment.
struct Run {
  std::uint32_t segment;
  std::uint32_t begin;
  std::uint32_t end;
};

// The slots of its rows' lists that a run collects.
struct Slots {
  std::uint64_t begin;
  std::uint64_t count;
};
__device__ inline std::uint64_t all_slots(const Segment& s) {
  return s.task.rows.slabs * s.task.rows.stride * s.task.rows.k;
}
__device__ inline Slots slots_of(const SelectArgs& a, const Run& run) {
  const Segment& s = a.segments[run.segment];
  const std::uint32_t first = a.first_tiles[run.segment];
  const std::uint64_t each = s.tile_rows_slots;
  const std::uint64_t begin = min_of(all_slots(s), (run.begin - first) * each);
  const std::uint64_t end = min_of(all_slots(s), (run.end - first) * each);
  return {s.row_slots + begin, end - begin};
}

// Its words of the bitmaps.
struct Words {
  std::uint64_t begin;
  std::uint64_t count;
};
__device__ inline Words words_of(const SelectArgs& a, const Run& run) {
  constexpr std::uint64_t kEach = kTile / 32;
  const Segment& s = a.segments[run.segment];
  const std::uint32_t first = a.first_tiles[run.segment];
  const std::uint64_t begin = (run.begin - first) * kEach;
  const std::uint64_t all = (s.task.facts.n + 31) / 32;
  return {s.words + begin, min_of(all, (run.end - first) * kEach) - begin};
}

// The last lane whose `before`, which ascends, is at most i.
__device__ inline unsigned owner_of(unsigned before, unsigned i) {
  unsigned owner = 0;
  for (unsigned d = 16; d > 0; d /= 2) {
    if (__shfl_sync(kAll, before, owner + d) <= i) owner += d;
  }
  return owner;
}

// The candidates of up to 32 tiles of a run, in order and 32 at a time, several
// times 32 loaded before any is used: use(there, entry). By one warp.
template <class Use>
__device__ __forceinline__ void for_candidates(const SelectArgs& a,
                                               std::uint32_t begin,
                                               std::uint32_t end, Use&& use) {
  constexpr unsigned kBatch = 4;
  std::uint32_t recorded = 0;
  std::uint64_t offset = 0;
  if (lane() < end - begin) {
    const Tile& t = a.tile[begin + lane()];
    offset = t.offset;
    recorded = offset == kUnrecorded ? 0 : t.recorded;
  }
  unsigned total = 0;
  const unsigned before = warp_before(recorded, &total);
  const std::uint64_t base = offset - before;
  const Entry* candidates = a.candidates;
  for (unsigned from = 0; from < total; from += 32 * kBatch) {
    Entry entries[kBatch];
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned i = min_of(from + b * 32 + lane(), total - 1);
      const unsigned owner = owner_of(before, i);
      entries[b] = candidates[__shfl_sync(kAll, base, owner) + i];
    }
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      if (from + b * 32 >= total) break;
      use(from + b * 32 + lane() < total, entries[b]);
    }
  }
}

// The next level of bins for the cuts that need one. Blocks count by themselves
// first: few bins hold most.
__device__ inline void count_bins(const SelectArgs& a) {
  std::uint32_t* counts = shared_words();
  const Range range = range_of(a, blockIdx.x);
  const Range mine = range_of_warp(a);
  for (std::uint32_t at = range.begin; at < range.end;) {
    const std::uint32_t segment = warp_segment_of(a.first_tiles, a.count, at);
    const std::uint32_t first = a.first_tiles[segment];
    at = min_of(range.end, a.first_tiles[segment + 1]);
    const Work& w = a.works[segment];
    if (w.unresolved == 0) continue;
    const std::uint32_t base = w.base;
    const std::uint32_t width = w.width;
    const std::uint32_t shift = w.shift;
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) counts[b] = 0;
    __syncthreads();
    const std::uint32_t end = min_of(at, mine.end);
    for (std::uint32_t t = max_of(first, mine.begin); t < end; t += 32) {
      for_candidates(a, t, min_of(t + 32, end),
                     [&](bool there, const Entry& entry) {
                       const std::uint32_t key = magnitude_key(entry.value);
                       if (!there || key - base >= width) return;
                       atomicAdd(counts + cut_bin(key - base, shift), 1U);
                     });
    }
    __syncthreads();
    std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) {
      if (counts[b] != 0) atomicAdd(bins + b, counts[b]);
    }
    __syncthreads();
  }
}

__device__ inline Taken operator+(const Taken& x, const Taken& y) {
  return {x.above + y.above, x.at_cut + y.at_cut};
}

__device__ inline std::uint64_t count_slots(const SelectArgs& a, const Work& w,
                                            const Slots& slots) {
  if (w.missing == 0) return slots.count;
  unsigned count = 0;
  for (std::uint64_t i = lane(); i < slots.count; i += 32) {
    count += a.candidates[slots.begin + i].index != kNoEntry ? 1U : 0U;
  }
  return __reduce_add_sync(kAll, count);
}

__device__ inline Taken count_taken(const SelectArgs& a, const Run& run) {
  Work& w = a.works[run.segment];
  // What is taken whatever the rest of the search says.
  const std::uint32_t above = w.few != 0 ? w.base + w.width : w.cut + 1;
  const std::uint32_t least = w.few != 0 ? w.base : w.cut;
  const bool listing = w.few != 0;
  const bool ties = takes_ties(w);
  unsigned taken = 0;
  unsigned at_cut = 0;
  for (std::uint32_t at = run.begin; at < run.end; at += 32) {
    for_candidates(a, at, min_of(at + 32, run.end),
                   [&](bool there, const Entry& entry) {
                     const std::uint32_t key = magnitude_key(entry.value);
                     if (!there || key < least) return;
                     if (key >= above) {
                       ++taken;
                     } else if (!listing) {
                       ++at_cut;
                     } else {
                       const std::uint32_t slot = atomicAdd(&w.listed, 1U);
                       a.few[run.segment * kFew + slot] = entry;
                     }
                   });
    if (ties && at + lane() < run.end) at_cut += a.tile[at + lane()].ties;
  }
  return {__reduce_add_sync(kAll, taken), __reduce_add_sync(kAll, at_cut)};
}

// By one warp.
__device__ inline Taken count_run(const SelectArgs& a, const Run& run) {
  const Segment& s = a.segments[run.segment];
  Work& w = a.works[run.segment];
  if (is_direct(s, w)) return {count_slots(a, w, slots_of(a, run)), 0};
  if (!is_marked(s, w)) {
    return w.selected > 0 ? count_taken(a, run) : Taken{};
  }
  const Words words = words_of(a, run);
  unsigned marked = 0;
  for (std::uint64_t i = lane(); i < words.count; i += 32) {
    marked += static_cast<unsigned>(__popc(a.marks[words.begin + i]));
  }
  marked = __reduce_add_sync(kAll, marked);
  if (lane() == 0) {
    atomicAdd(&w.marked, static_cast<unsigned long long>(marked));
  }
  return {marked, 0};
}

// What each warp of a block takes of the last segment of its tiles.
struct LastTaken {
  std::uint32_t segment[kWarps];
  Taken taken[kWarps];
};
__device__ inline LastTaken& last_taken() {
  __shared__ LastTaken last;
  return last;
}

// Counts what each warp takes; a.tails: of the last segment of a block's tiles,
// what the block does.
__device__ inline void count_all(const SelectArgs& a) {
  LastTaken& last = last_taken();
  const Range range = range_of_warp(a);
  std::uint32_t segment = a.count;
  Taken taken;
  if (range.begin < range.end) {
    segment = warp_segment_of(a.first_tiles, a.count, range.begin);
    for (std::uint32_t at = range.begin;; ++segment) {
      const std::uint32_t end = min_of(range.end, a.first_tiles[segment + 1]);
      if (at < end) taken = count_run(a, {segment, at, end});
      at = end;
      if (at == range.end) break;
    }
  }
  if (lane() == 0) {
    last.segment[warp()] = segment;
    last.taken[warp()] = taken;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  Taken sum;
  std::uint32_t of = a.count;
  for (unsigned i = kWarps; i-- > 0;) {
    if (last.segment[i] == a.count) continue;  // it has no tiles
    if (of == a.count) of = last.segment[i];
    if (last.segment[i] != of) break;
    sum = sum + last.taken[i];
  }
  a.tails[blockIdx.x] = sum;
}

__device__ inline std::uint64_t selected_of(const SelectArgs& a,
                                            std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  if (is_direct(s, w)) return all_slots(s) - w.missing;
  return is_marked(s, w) ? w.marked : w.selected;
}

// Entries of all segments before this one, to all threads of a block.
__device__ inline std::uint64_t start_of(const SelectArgs& a,
                                         std::uint32_t segment) {
  unsigned long long sum = 0;
  for (std::uint32_t s = threadIdx.x; s < segment; s += kThreads) {
    sum += selected_of(a, s);
  }
  return block_sum(sum);
}

// What earlier blocks take of the segment that this block's first tile is of.
__device__ inline Taken taken_by_blocks(const SelectArgs& a,
                                        std::uint32_t first_tile) {
  if (first_tile >= range_of(a, blockIdx.x).begin) return {};
  std::uint32_t block = first_tile / tiles_per_block(a);
  unsigned long long above = 0;
  unsigned long long at_cut = 0;
  for (block += threadIdx.x; block < blockIdx.x; block += kThreads) {
    above += a.tails[block].above;
    at_cut += a.tails[block].at_cut;
  }
  return {block_sum(above), block_sum(at_cut)};
}

// What earlier warps of the block take of a segment that this one goes on with.
__device__ inline Taken taken_by_warps(std::uint32_t segment) {
  const LastTaken& last = last_taken();
  Taken sum;
  for (unsigned i = 0; i < warp(); ++i) {
    if (last.segment[i] == segment) sum = sum + last.taken[i];
  }
  return sum;
}

}  // namespace sluice::cuda
