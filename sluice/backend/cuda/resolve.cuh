#pragma once

#include "sluice/backend/cuda/brackets.cuh"

// From counts to the cut: verdicts, rounds, and the search for the key.

namespace sluice::cuda {

// Exact selection that even a bracket from a sample could not hold: 11 bits of
// the key at a time, over all elements.
__device__ inline void search_tile(const SelectArgs& a, std::uint32_t segment,
                                   std::uint32_t tile) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const std::uint32_t first_tile = a.first_tiles[segment];
  std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
  const std::uint64_t begin = std::uint64_t{tile - first_tile} * kTile;
  for (std::uint32_t i = lane(); i < kTile; i += 32) {
    const std::uint64_t at = begin + i;
    std::uint32_t bin = kDigitBins;
    if (at < s.task.facts.n) {
      const float x = source.at(at);
      const std::uint32_t key = ranked_key(x, sign_of(s));
      const bool bad =
          magnitude_key(x) >= kInfKey || was_bad(a, s, w, first_tile, at);
      if (!bad && key - w.base < w.width) bin = (key - w.base) >> w.shift;
    }
    // Equal keys, of which there may be many, once per warp.
    const unsigned same = __match_any_sync(kAll, bin);
    if (bin < kDigitBins && lane() == static_cast<unsigned>(__ffs(same)) - 1) {
      atomicAdd(bins + bin, static_cast<unsigned>(__popc(same)));
    }
  }
}

__device__ inline void search_tiles(const SelectArgs& a) {
  for_shares(
      a, [](const Work& w) { return w.open != 0 && w.searched != 0; },
      [&](const Share& share) {
        for (std::uint32_t t = share.begin; t < share.end; t += share.step) {
          search_tile(a, share.segment, t);
        }
      });
}

// One level of the search of a segment, by one block.
__device__ inline void search_step(const SelectArgs& a, std::uint32_t segment) {
  Work& w = a.works[segment];
  std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
  if (w.base == 0 && w.shift == 20) {  // the first level has seen all of them
    unsigned long long mine = 0;
    for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads)
      mine += bins[b];
    const unsigned long long finite = block_sum(mine);
    if (threadIdx.x == 0)
      w.rank = w.wanted = min_of<std::uint64_t>(w.wanted, finite);
    __syncthreads();
  }
  const Found found = find_bin(bins, kDigitBins, w.rank);
  for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (w.wanted > 0) {
    w.base += found.bin << w.shift;
    w.rank -= found.above;
  }
  w.width = 1U << w.shift;
  const bool done = w.shift == 0;
  w.shift = w.shift > kDigitBits ? w.shift - kDigitBits : 0;
  if (!done) return;
  if (w.wanted == 0) {
    w.bracket = {kInfKey, kInfKey};
  } else {
    w.bracket = without_zeros({w.base, w.base + 1, true, false});
  }
}

// Whether the segment goes round again.
__device__ inline bool judge_counts(const SelectArgs& a,
                                    std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const Counts counts = count_candidates(s.task, w.bracket, w.wanted,
                                         {w.recorded + w.ties, w.high}, s.room);
  w.candidates = counts.lo;
  if (w.exact != 0) {
    ++w.round;
    w.verdict = judge_exact(counts, w.wanted, w.searched != 0);
  } else {
    const Verdict verdict = judge_rule(a, segment, counts);
    ++w.round;
    w.verdict = bounded(verdict, counts, s.task, w.round);
  }
  if (w.verdict.kind == Verdict::kTake) return false;
  if (w.exact != 0) {
    w.searched = 1;
  } else if (w.verdict.kind == Verdict::kExact) {
    select_exactly(s, w, w.verdict.count);
  } else {
    ask(s, w, ask_rule(a, segment));
  }
  return true;
}

// What the cut of a segment is, or what is left to search.
__device__ inline void begin_resolve(Work& w) {
  const std::uint64_t count = w.verdict.count;
  const std::uint64_t all = w.recorded + w.ties;
  w.selected = count;
  w.unresolved = w.counted = 0;
  w.quota = ~std::uint64_t{0};
  if (count == 0) {
    w.cut = kInfKey;
    w.quota = 0;
    return;
  }
  if (count == all) {
    w.cut = w.bracket.ties ? w.bracket.lo : 0;
    return;
  }
  if (count == w.high) {
    w.cut = w.bracket.hi;
    return;
  }
  if (count > w.high && w.bracket.ties) {
    w.cut = w.bracket.lo;
    w.quota = count - w.high;
    w.tied = w.ties > w.quota ? 1 : 0;
    return;
  }
  w.unresolved = 1;
  if (count > w.high) {  // inside the bracket, whose bins have been counted
    w.base = w.bracket.lo;
    w.width = w.bracket.hi - w.bracket.lo;
    w.rank = count - w.high;
    w.counted = 1;
    return;
  }
  // Above it, most likely by less than an octave.
  constexpr std::uint32_t kOctave = 23;
  w.base = w.bracket.hi;
  w.rank = count;
  w.width = kInfKey - w.base;
  w.shift = min_of(cut_shift(w.width), cut_shift(1U << kOctave));
}

// One level of the search for the cut, in bins that have been counted.
__device__ inline void resolve_step(const SelectArgs& a,
                                    std::uint32_t segment) {
  Work& w = a.works[segment];
  const Found found =
      find_bin(a.cut_bins + std::size_t{segment} * kCutBins, kCutBins, w.rank);
  if (threadIdx.x != 0) return;
  const std::uint32_t skipped = found.bin << w.shift;
  const bool open = found.bin == kCutBins - 1;
  w.base += skipped;
  w.rank -= found.above;
  w.width -= skipped;
  if (!open) w.width = min_of(1U << w.shift, w.width);
  const bool alike = w.width == 1;
  if (!alike && found.inside > kFew) {
    w.shift = cut_shift(w.width);
    return;
  }
  w.unresolved = 0;
  if (!alike) {
    w.few = 1;
    return;
  }
  w.cut = w.base;
  w.quota = w.rank;
  w.tied = found.inside > w.rank ? 1 : 0;
}

__device__ inline void clear_bins(const SelectArgs& a, std::uint32_t segment) {
  auto* quads =
      reinterpret_cast<uint4*>(a.cut_bins + std::size_t{segment} * kCutBins);
  for (unsigned b = threadIdx.x; b < kCutBins / 4; b += kThreads) {
    quads[b] = {0, 0, 0, 0};
  }
}

// A segment that has been streamed, by one block. Counts those that go round
// again, and of them those that search.
struct Rounds {
  std::uint32_t* open;
  std::uint32_t* searching;
};

__device__ inline void judge(const SelectArgs& a, std::uint32_t segment,
                             const Rounds& rounds) {
  Work& w = a.works[segment];
  const bool streamed = w.streaming != 0;
  __syncthreads();
  if (!streamed) return;
  if (threadIdx.x == 0) {
    if (w.open == 0) {
      w.streaming = 0;
    } else {
      if (judge_counts(a, segment)) {
        w.restoring = 1;
        w.unresolved = w.counted = 0;
        atomicAdd(rounds.open, 1U);
        if (w.searched != 0) {
          atomicAdd(rounds.searching, 1U);
          w.base = 0;
          w.shift = 20;
          w.width = 1U << 31;
        }
      } else {
        w.open = w.streaming = 0;
        begin_resolve(w);
      }
    }
  }
  __syncthreads();
  if (w.counted != 0) resolve_step(a, segment);
  __syncthreads();
  clear_bins(a, segment);
}

// Puts back what a failed bracket took, one warp per tile.
__device__ inline void restore_tiles(const SelectArgs& a) {
  for_shares(
      a, [](const Work& w) { return w.restoring != 0; },
      [&](const Share& share) {
        const SegmentTask& task = a.segments[share.segment].task;
        const std::uint32_t clear = clears_from(a.works[share.segment].bracket);
        if (task.memory == nullptr) return;
        for (std::uint32_t t = share.begin; t < share.end; t += share.step) {
          const Tile tile = a.tile[t];
          if (tile.offset == kUnrecorded) continue;
          for (std::uint32_t i = lane(); i < tile.recorded; i += 32) {
            const Entry entry = a.candidates[tile.offset + i];
            if (magnitude_key(entry.value) < clear) continue;
            task.memory[entry.index - task.base] = entry.value;
          }
        }
      });
}

// Once all has been put back: the memory holds acc, the counts start anew.
__device__ inline void begin_round(const SelectArgs& a) {
  for (std::uint32_t segment = blockIdx.x * kThreads + threadIdx.x;
       segment < a.count; segment += gridDim.x * kThreads) {
    Work& w = a.works[segment];
    if (w.restoring == 0) continue;
    w.restoring = 0;
    w.settled = 1;
    w.recorded = w.high = w.ties = w.spilled = 0;
  }
}

// Blocks that write the reports while the others collect entries.
__device__ inline std::uint32_t reporters() { return gridDim.x > 1 ? 1 : 0; }

// The tiles that a block counts and emits.
__device__ inline std::uint32_t collectors() { return gridDim.x - reporters(); }
__device__ inline std::uint32_t tiles_per_block(const SelectArgs& a) {
  return (a.tiles + collectors() - 1) / collectors();
}
__device__ inline Range range_of(const SelectArgs& a, std::uint32_t block) {
  const std::uint32_t each = tiles_per_block(a);
  return {min_of(block * each, a.tiles), min_of((block + 1) * each, a.tiles)};
}

// Of them, those that a warp does.
__device__ inline Range range_of_warp(const SelectArgs& a) {
  const Range range = range_of(a, blockIdx.x);
  const std::uint32_t tiles = range.end - range.begin;
  return {range.begin + tiles * warp() / kWarps,
          range.begin + tiles * (warp() + 1) / kWarps};
}

}  // namespace sluice::cuda
