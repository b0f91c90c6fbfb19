#pragma once

#include "sluice/backend/cuda/sampling.cuh"

// From candidates to the block: verdicts, the cut, and the entries in order.

namespace sluice::cuda {

// Exact selection that even a bracket from a sample could not hold: 11 bits of
// the key at a time, over all elements.
__device__ inline void search_tiles(const SelectArgs& a) {
  for (std::uint32_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const std::uint32_t segment = segment_of(a.first_tiles, a.count, tile);
    const Work& w = a.works[segment];
    if (w.open == 0 || w.searched == 0) continue;
    const Segment& s = a.segments[segment];
    const Source source = source_of(a, s, w);
    const std::uint32_t first_tile = a.first_tiles[segment];
    std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
    const std::uint64_t begin = std::uint64_t{tile - first_tile} * kTile;
    for (std::uint32_t i = threadIdx.x; i < kTile; i += kThreads) {
      const std::uint64_t at = begin + i;
      std::uint32_t bin = kCutBins;
      if (at < s.task.facts.n) {
        const float x = source.at(at);
        const std::uint32_t key = ranked_key(x, sign_of(s));
        const bool bad =
            magnitude_key(x) >= kInfKey || was_bad(a, s, w, first_tile, at);
        if (!bad && key - w.base < w.width) bin = (key - w.base) >> w.shift;
      }
      // Equal keys, of which there may be many, once per warp.
      const unsigned same = __match_any_sync(kAll, bin);
      if (bin < kCutBins && lane() == __ffs(same) - 1) {
        atomicAdd(bins + bin, static_cast<unsigned>(__popc(same)));
      }
    }
  }
}

// One level of the search of a segment, by one block.
__device__ inline void search_step(const SelectArgs& a, std::uint32_t segment) {
  Work& w = a.works[segment];
  std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
  if (w.base == 0 && w.shift == 20) {  // the first level has seen all of them
    unsigned long long mine = 0;
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) mine += bins[b];
    const unsigned long long finite = block_sum(mine);
    if (threadIdx.x == 0)
      w.rank = w.wanted = min_of<std::uint64_t>(w.wanted, finite);
    __syncthreads();
  }
  const Found found = find_bin(bins, kCutBins, w.rank);
  for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (w.wanted > 0) {
    w.base += found.bin << w.shift;
    w.rank -= found.above;
  }
  w.width = 1U << w.shift;
  const bool done = w.shift == 0;
  w.shift = w.shift > 11 ? w.shift - 11 : 0;
  if (!done) return;
  const std::uint32_t least = w.zeros != 0 ? 0 : 1;
  if (w.wanted == 0) {
    w.bracket = {kInfKey, kInfKey};
  } else if (w.base < least) {
    w.bracket = {1, 1};  // fewer non-zeros than asked for
  } else {
    w.bracket = {w.base, w.base + 1, true, false};
  }
  if (sign_of(a.segments[segment]) != 0) {
    w.bracket.lo = max_of(w.bracket.lo, 1U);
    w.bracket.hi = max_of(w.bracket.hi, w.bracket.lo);
  }
}

// See cpu::Selector::tie_cap and count.
__device__ inline std::uint64_t tie_cap(const Segment& s, const Work& w) {
  if (!w.bracket.ties) return 0;
  return max_of<std::uint64_t>(s.task.facts.k, w.wanted) + 1;
}

__device__ inline Counts count_segment(const Segment& s, Work& w) {
  constexpr std::uint64_t kBlockRoom = 1024;  // the CPU's
  Counts counts = {w.recorded + w.ties, w.high};
  std::uint64_t most = w.recorded;
  if (const std::uint64_t cap = tie_cap(s, w); cap > 0) {
    counts.lo = min_of<std::uint64_t>(counts.lo, counts.hi + cap - 1);
    most = counts.hi + cap + kBlockRoom;
  }
  const bool bounded = w.open != 0 && s.room < s.task.facts.n;
  if (bounded && most > s.room) counts = {s.room, 0, true};
  w.candidates = counts.lo;
  return counts;
}

// Whether the segment goes round again.
__device__ inline bool judge_counts(const SelectArgs& a, std::uint32_t segment,
                                    const Counts& counts) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  if (w.exact != 0) {
    ++w.round;
    const bool all = w.bracket.lo <= (w.zeros != 0 ? 0U : 1U);
    const bool enough = !counts.overflow && (all || w.candidates >= w.wanted);
    if (enough || w.searched != 0) {
      w.verdict = {Verdict::kTake, min_of(w.wanted, w.candidates)};
      return false;
    }
    w.searched = 1;
    return true;
  }
  w.verdict = judge_rule(a, segment, counts);
  ++w.round;
  if (counts.overflow && w.verdict.kind == Verdict::kTake) {
    w.verdict.kind = Verdict::kExact;
  }
  if (w.verdict.kind == Verdict::kAgain && w.round >= s.task.rule.rounds) {
    w.verdict = {Verdict::kExact, s.task.facts.k};
  }
  if (w.verdict.kind == Verdict::kTake) {
    w.verdict.count = min_of(w.verdict.count, w.candidates);
    w.verdict.count = min_of<std::uint64_t>(w.verdict.count, s.task.capacity);
    return false;
  }
  if (w.verdict.kind == Verdict::kExact) {
    select_exactly(s, w, w.verdict.count, w.verdict.zeros);
  } else {
    w.query = ask_rule(a, segment);
    w.asking = 1;
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
    w.rank = count - w.high;
    w.counted = 1;
    return;
  }
  w.base = w.bracket.hi;
  w.rank = count;
  w.width = kInfKey - w.base;
  w.shift = cut_shift(w.width);
}

// One level of the search for the cut, in bins that have been counted.
__device__ inline void resolve_step(const SelectArgs& a,
                                    std::uint32_t segment) {
  Work& w = a.works[segment];
  const Found found =
      find_bin(a.cut_bins + std::size_t{segment} * kCutBins, kCutBins, w.rank);
  if (threadIdx.x != 0) return;
  w.base += found.bin << w.shift;
  w.rank -= found.above;
  w.width = 1U << w.shift;
  if (w.shift > 0) {
    w.shift = w.shift > 11 ? w.shift - 11 : 0;
    return;
  }
  w.unresolved = 0;
  w.cut = w.base;
  w.quota = w.rank;
  w.tied = found.inside > w.rank ? 1 : 0;
}

__device__ inline void clear_bins(const SelectArgs& a, std::uint32_t segment) {
  std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
  for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) bins[b] = 0;
}

// A segment that has been streamed, by one block. Counts those that go round
// again, that search, and whose cut takes another level.
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
    const Segment& s = a.segments[segment];
    if (w.open == 0) {
      w.streaming = 0;
    } else {
      const Counts counts = count_segment(s, w);
      const bool again = judge_counts(a, segment, counts);
      if (again) {
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

__device__ inline std::uint32_t key_of(const SelectArgs& a, std::uint64_t i) {
  return magnitude_key(a.candidate_values[i]);
}

// Puts back what a failed bracket took, one warp per tile.
__device__ inline void restore_tiles(const SelectArgs& a) {
  for (std::uint32_t tile = blockIdx.x * kWarps + warp(); tile < a.tiles;
       tile += gridDim.x * kWarps) {
    const std::uint32_t segment = segment_of(a.first_tiles, a.count, tile);
    const Work& w = a.works[segment];
    const Segment& s = a.segments[segment];
    if (w.restoring == 0 || w.bracket.ties || s.task.memory == nullptr)
      continue;
    const Tile t = a.tile[tile];
    if (t.offset == kUnrecorded) continue;
    for (std::uint32_t i = lane(); i < t.recorded; i += 32) {
      if (key_of(a, t.offset + i) < w.bracket.hi) continue;
      s.task.memory[a.candidate_indices[t.offset + i] - s.task.base] =
          a.candidate_values[t.offset + i];
    }
  }
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

// The next level of bins for the cuts that need one, one warp per tile.
__device__ inline void count_bins(const SelectArgs& a) {
  for (std::uint32_t tile = blockIdx.x * kWarps + warp(); tile < a.tiles;
       tile += gridDim.x * kWarps) {
    const std::uint32_t segment = segment_of(a.first_tiles, a.count, tile);
    const Work& w = a.works[segment];
    if (w.unresolved == 0) continue;
    const Tile t = a.tile[tile];
    std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
    for (std::uint32_t i = lane(); i < t.recorded; i += 32) {
      const std::uint32_t key = key_of(a, t.offset + i);
      if (key - w.base >= w.width) continue;
      atomicAdd(bins + ((key - w.base) >> w.shift), 1U);
    }
  }
}

// The tiles that a block counts and emits.
struct Range {
  std::uint32_t begin;
  std::uint32_t end;
};
__device__ inline Range range_of(const SelectArgs& a, std::uint32_t block) {
  return {
      static_cast<std::uint32_t>(std::uint64_t{a.tiles} * block / gridDim.x),
      static_cast<std::uint32_t>(std::uint64_t{a.tiles} * (block + 1) /
                                 gridDim.x)};
}

__device__ inline bool is_marked(const Segment& s, const Work& w) {
  return w.by_rows != 0 || s.task.kind == SelectKind::kListed;
}

__device__ inline bool takes_ties(const Work& w) {
  return w.bracket.ties && w.cut == w.bracket.lo;
}

constexpr std::uint32_t kWordsPerTile = kTile / 32;

__device__ inline std::uint32_t words_in(const Segment& s,
                                         std::uint64_t begin) {
  const std::uint64_t left = (s.task.facts.n - begin + 31) / 32;
  return static_cast<std::uint32_t>(min_of<std::uint64_t>(left, kWordsPerTile));
}

// How many entries of a tile lie above the cut and at it, by one warp.
__device__ inline void count_tile(const SelectArgs& a, std::uint32_t tile) {
  const std::uint32_t segment = segment_of(a.first_tiles, a.count, tile);
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  Tile& t = a.tile[tile];
  unsigned take = 0;
  unsigned at_cut = 0;
  if (is_marked(s, w)) {
    const std::uint64_t begin =
        std::uint64_t{tile - a.first_tiles[segment]} * kTile;
    const std::uint32_t* words = a.marks + s.words + begin / 32;
    const std::uint32_t count = words_in(s, begin);
    for (std::uint32_t i = lane(); i < count; i += 32) take += __popc(words[i]);
    take = __reduce_add_sync(kAll, take);
    if (lane() == 0 && take > 0) {
      atomicAdd(&w.marked, static_cast<unsigned long long>(take));
    }
  } else if (w.selected > 0) {
    const std::uint32_t cut = w.cut;
    for (std::uint32_t i = lane(); i < t.recorded; i += 32) {
      const std::uint32_t key = key_of(a, t.offset + i);
      take += key > cut ? 1U : 0U;
      at_cut += key == cut ? 1U : 0U;
    }
    take = __reduce_add_sync(kAll, take);
    at_cut = __reduce_add_sync(kAll, at_cut);
    if (takes_ties(w)) at_cut = t.ties;
  }
  if (lane() == 0) {
    t.take = take;
    t.at_cut = at_cut;
  }
}

// The counts of a block's tiles, then for each tile those of the tiles of its
// segment before it in this block; a.tails has what the last segment's come to.
__device__ inline void count_tiles(const SelectArgs& a) {
  const Range range = range_of(a, blockIdx.x);
  for (std::uint32_t t = range.begin + warp(); t < range.end; t += kWarps) {
    count_tile(a, t);
  }
  __syncthreads();
  if (warp() != 0) return;
  // 32 tiles at a time; what is carried is of the segment of the last.
  std::uint32_t last = a.count;
  std::uint32_t take = 0;
  std::uint32_t at_cut = 0;
  for (std::uint32_t at = range.begin; at < range.end; at += 32) {
    const std::uint32_t tile = at + lane();
    const bool inside = tile < range.end;
    const std::uint32_t segment =
        segment_of(a.first_tiles, a.count, min_of(tile, range.end - 1));
    std::uint32_t sums[2] = {};
    if (inside) {
      sums[0] = a.tile[tile].take;
      sums[1] = a.tile[tile].at_cut;
    }
    const std::uint32_t own[2] = {sums[0], sums[1]};
    for (unsigned d = 1; d < 32; d *= 2) {
      const std::uint32_t its = __shfl_up_sync(kAll, segment, d);
      const std::uint32_t before[2] = {__shfl_up_sync(kAll, sums[0], d),
                                       __shfl_up_sync(kAll, sums[1], d)};
      if (lane() < d || its != segment) continue;
      sums[0] += before[0];
      sums[1] += before[1];
    }
    if (segment == last) {
      sums[0] += take;
      sums[1] += at_cut;
    }
    if (inside) {
      a.tile[tile].take = sums[0] - own[0];
      a.tile[tile].at_cut = sums[1] - own[1];
    }
    const int end = static_cast<int>(min_of(range.end - at, 32U)) - 1;
    last = __shfl_sync(kAll, segment, end);
    take = __shfl_sync(kAll, sums[0], end);
    at_cut = __shfl_sync(kAll, sums[1], end);
  }
  if (lane() != 0 || range.begin == range.end) return;
  a.tails[2 * blockIdx.x] = take;
  a.tails[2 * blockIdx.x + 1] = at_cut;
}

__device__ inline std::uint64_t selected_of(const SelectArgs& a,
                                            std::uint32_t segment) {
  const Work& w = a.works[segment];
  return is_marked(a.segments[segment], w) ? w.marked : w.selected;
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

struct Carry {
  std::uint64_t take = 0;
  std::uint64_t at_cut = 0;
};

// What earlier blocks have of the segment that this one's first tile is of.
__device__ inline Carry carry_of(const SelectArgs& a,
                                 std::uint32_t first_tile) {
  std::uint32_t block = static_cast<std::uint32_t>(std::uint64_t{first_tile} *
                                                   gridDim.x / a.tiles);
  while (range_of(a, block).end <= first_tile) ++block;
  unsigned long long take = 0;
  unsigned long long at_cut = 0;
  for (block += threadIdx.x; block < blockIdx.x; block += kThreads) {
    const Range range = range_of(a, block);
    if (range.begin == range.end) continue;
    take += a.tails[2 * block];
    at_cut += a.tails[2 * block + 1];
  }
  Carry carry;
  carry.take = block_sum(take);
  carry.at_cut = block_sum(at_cut);
  return carry;
}

// Marked entries of one tile, to `out` on; by one warp. Their memory and marks
// are cleared.
__device__ inline void emit_marks(const SelectArgs& a, const Segment& s,
                                  std::uint64_t begin, std::uint64_t out) {
  std::uint32_t* words = a.marks + s.words + begin / 32;
  const std::uint32_t count = words_in(s, begin);
  for (std::uint32_t at = 0; at < count; at += 32) {
    const std::uint32_t i = at + lane();
    const std::uint32_t word = i < count ? words[i] : 0;
    if (word != 0) words[i] = 0;
    unsigned total = 0;
    const unsigned before =
        warp_before(static_cast<unsigned>(__popc(word)), &total);
    // A lane per entry, so that their loads are under way together.
    for (unsigned from = 0; from < total; from += 32) {
      const unsigned entry = min_of(from + lane(), total - 1);
      unsigned owner = 0;  // the last lane with no more entries before it
      for (unsigned d = 16; d > 0; d /= 2) {
        if (__shfl_sync(kAll, before, owner + d) <= entry) owner += d;
      }
      const std::uint32_t bits = __shfl_sync(kAll, word, owner);
      const unsigned rank = entry - __shfl_sync(kAll, before, owner);
      if (from + lane() >= total) continue;
      const std::uint64_t e = begin + std::uint64_t{at + owner} * 32 +
                              __fns(bits, 0, static_cast<int>(rank) + 1);
      float x;
      if (s.task.memory != nullptr) {
        x = s.task.memory[e];
        s.task.memory[e] = 0.0F;
      } else {
        x = a.gamma * s.task.gradient[e];
      }
      a.indices[out + entry] = s.task.base + static_cast<std::uint32_t>(e);
      a.values[out + entry] = x;
    }
    out += total;
  }
}

// Candidates of one tile that reach the cut, at most `quota` of those at it.
__device__ inline void emit_list(const SelectArgs& a, const Segment& s,
                                 const Work& w, const Tile& t,
                                 std::uint64_t quota, std::uint64_t out) {
  if (t.offset == kUnrecorded) return;
  for (std::uint32_t at = 0; at < t.recorded; at += 32) {
    const std::uint32_t i = at + lane();
    const bool inside = i < t.recorded;
    const float x = inside ? a.candidate_values[t.offset + i] : 0.0F;
    const std::uint32_t index = inside ? a.candidate_indices[t.offset + i] : 0;
    const std::uint32_t key = magnitude_key(x);
    const bool tie = inside && key == w.cut;
    const unsigned ties = __ballot_sync(kAll, tie);
    const unsigned below = (1U << lane()) - 1;
    const bool take =
        inside && (key > w.cut || (tie && __popc(ties & below) < quota));
    const unsigned taken = __ballot_sync(kAll, take);
    quota -= min_of<std::uint64_t>(quota, __popc(ties));
    if (take) {
      const std::uint64_t o = out + __popc(taken & below);
      a.indices[o] = index;
      a.values[o] = x;
    }
    out += __popc(taken);
    if (!inside || s.task.memory == nullptr) continue;
    const bool gone = !w.bracket.ties && key >= w.bracket.hi;
    if (take != gone) s.task.memory[index - s.task.base] = take ? 0.0F : x;
  }
}

// A tile some of whose ties at the cut are taken: they are in no list.
__device__ inline void emit_ties(const SelectArgs& a, std::uint32_t segment,
                                 std::uint32_t tile, std::uint64_t quota,
                                 std::uint64_t out) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const std::uint32_t first_tile = a.first_tiles[segment];
  const std::uint64_t begin = std::uint64_t{tile - first_tile} * kTile;
  Source source = source_of(a, s, w);
  if (s.task.memory != nullptr) source.gradient = nullptr;  // it holds acc
  const bool hidden = a.tile[tile].bad > 0;
  for (std::uint32_t at = 0; at < kTile; at += 32) {
    const std::uint64_t e = begin + at + lane();
    const bool inside = e < s.task.facts.n;
    const float x = inside ? source.at(e) : 0.0F;
    const bool bad = magnitude_key(x) >= kInfKey ||
                     (hidden && inside && bit_at(a.bad_bits + s.words, e));
    const std::uint32_t key = ranked_key(x, sign_of(s));
    const bool tie = inside && !bad && key == w.cut;
    const unsigned ties = __ballot_sync(kAll, tie);
    const unsigned below = (1U << lane()) - 1;
    const bool take = inside && !bad &&
                      (key > w.cut || (tie && __popc(ties & below) < quota));
    const unsigned taken = __ballot_sync(kAll, take);
    quota -= min_of<std::uint64_t>(quota, __popc(ties));
    if (take) {
      const std::uint64_t o = out + __popc(taken & below);
      a.indices[o] = s.task.base + static_cast<std::uint32_t>(e);
      a.values[o] = x;
      if (s.task.memory != nullptr) s.task.memory[e] = 0.0F;
    }
    out += __popc(taken);
  }
}

__device__ inline void emit_tile(const SelectArgs& a, std::uint32_t segment,
                                 std::uint32_t tile, std::uint64_t start,
                                 const Carry& carry) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Tile t = a.tile[tile];
  if (is_marked(s, w)) {
    emit_marks(a, s, std::uint64_t{tile - a.first_tiles[segment]} * kTile,
               start + carry.take + t.take);
    return;
  }
  const std::uint64_t ties = carry.at_cut + t.at_cut;
  const std::uint64_t used = min_of(ties, w.quota);
  const std::uint64_t out = start + carry.take + t.take + used;
  if (takes_ties(w) && t.ties > 0 && used < w.quota) {
    emit_ties(a, segment, tile, w.quota - used, out);
  } else if (t.recorded > 0) {
    emit_list(a, s, w, t, w.quota - used, out);
  }
}

__device__ inline void emit_all(const SelectArgs& a) {
  const Range range = range_of(a, blockIdx.x);
  if (range.begin == range.end) return;
  std::uint32_t segment = segment_of(a.first_tiles, a.count, range.begin);
  std::uint64_t start = start_of(a, segment);
  Carry carry;
  if (a.first_tiles[segment] < range.begin) {
    carry = carry_of(a, a.first_tiles[segment]);
  }
  for (std::uint32_t at = range.begin; at < range.end;) {
    const std::uint32_t end = min_of(range.end, a.first_tiles[segment + 1]);
    for (std::uint32_t t = at + warp(); t < end; t += kWarps) {
      emit_tile(a, segment, t, start, carry);
    }
    at = max_of(at, end);
    start += selected_of(a, segment);
    carry = {};
    ++segment;
  }
}

// The report of a segment, and what its rule remembers. By one block.
__device__ inline void finish(const SelectArgs& a, std::uint32_t segment) {
  const std::uint64_t start = start_of(a, segment);
  if (threadIdx.x != 0) return;
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const std::uint64_t selected = selected_of(a, segment);
  a.starts[segment] = start;
  if (segment + 1 == a.count) a.starts[a.count] = start + selected;
  SegmentReport report;
  report.selected = selected;
  report.budget = s.task.facts.k;
  report.nonfinite = w.nonfinite;
  if (s.task.kept_out != nullptr) report.nonfinite += *s.task.kept_out;
  report.candidates = is_marked(s, w) ? selected : w.candidates;
  report.rounds = w.round;
  report.exact = w.exact;
  a.reports[segment] = report;
  if (s.task.kind != SelectKind::kThreshold || s.task.facts.n == 0) return;
  Outcome outcome;
  outcome.selected = selected;
  outcome.by_rows = w.by_rows != 0;
  outcome.rounds = w.round;
  outcome.exact = w.exact != 0;
  outcome.tied = w.tied != 0;
  if (w.by_rows == 0 && selected > 0) {
    outcome.threshold_key = max_of(w.cut, w.bracket.lo);
  }
  observe_rule(a, segment, outcome);
}

// What a segment without memory did not send. By one block, behind emit_all.
__device__ inline void measure_lost(const SelectArgs& a,
                                    std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  if (s.task.memory != nullptr) return;
  const std::uint32_t first = a.first_tiles[segment];
  double all = 0;
  for (std::uint32_t t = first + threadIdx.x; t < a.first_tiles[segment + 1];
       t += kThreads) {
    all += a.tile_mass[t];
  }
  all = block_sum(all);
  const std::uint64_t start = start_of(a, segment);
  const std::uint64_t count = selected_of(a, segment);
  double sent = 0;
  for (std::uint64_t i = threadIdx.x; i < count; i += kThreads) {
    sent += fabs(static_cast<double>(a.values[start + i]));
  }
  sent = block_sum(sent);
  if (threadIdx.x != 0) return;
  // The difference of two sums; below their rounding nothing was lost.
  const double lost = all - sent;
  a.reports[segment].lost = lost < 1e-12 * all ? 0 : lost;
}

}  // namespace sluice::cuda
