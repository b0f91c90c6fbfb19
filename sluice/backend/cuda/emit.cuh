#pragma once

#include "sluice/backend/cuda/resolve.cuh"

// From the cut to the block: the entries in order, reports, and what the rules
// remember.

namespace sluice::cuda {

__device__ inline bool is_marked(const Segment& s, const Work& w) {
  return w.by_rows != 0 || s.task.kind == SelectKind::kListed;
}

__device__ inline bool takes_ties(const Work& w) {
  return w.bracket.ties && w.few == 0 && w.cut == w.bracket.lo;
}

// The cut of a segment, and of its last few candidates those that are taken; in
// shared memory.
struct Cut {
  std::uint32_t key = 0;
  std::uint32_t quota = 0;  // of the taken ones, at the cut
  std::uint32_t taken = 0;
  bool tied = false;
  Entry entries[kFew];
};

// Finds it from the list of the few; by one block.
__device__ inline const Cut& cut_few(const SelectArgs& a,
                                     std::uint32_t segment) {
  __shared__ Cut cut;
  __shared__ Entry all[kFew];
  const Work& w = a.works[segment];
  const std::uint32_t i = threadIdx.x;
  __syncthreads();
  if (i == 0) cut.quota = cut.taken = 0;
  if (i == 0) cut.tied = false;
  if (i < w.listed) all[i] = a.few[segment * kFew + i];
  __syncthreads();
  std::uint32_t before = ~0U;
  if (i < w.listed) {
    before = 0;
    const Entry mine = all[i];
    for (std::uint32_t j = 0; j < w.listed; ++j) {
      const std::uint32_t key = magnitude_key(all[j].value);
      const std::uint32_t own = magnitude_key(mine.value);
      before += key > own || (key == own && all[j].index < mine.index) ? 1 : 0;
    }
    if (before < w.rank) cut.entries[atomicAdd(&cut.taken, 1U)] = mine;
    if (before + 1 == w.rank) cut.key = magnitude_key(mine.value);
  }
  __syncthreads();
  if (i < w.listed && magnitude_key(all[i].value) == cut.key) {
    if (before < w.rank) {
      atomicAdd(&cut.quota, 1U);
    } else {
      cut.tied = true;
    }
  }
  __syncthreads();
  return cut;
}
static_assert(kFew <= kThreads);

constexpr std::uint32_t kWordsPerTile = kTile / 32;

__device__ inline std::uint32_t words_in(const Segment& s,
                                         std::uint64_t begin) {
  const std::uint64_t left = (s.task.facts.n - begin + 31) / 32;
  return static_cast<std::uint32_t>(min_of<std::uint64_t>(left, kWordsPerTile));
}

// Whether its rows have written lists of their own, in the order of indices.
__device__ inline bool is_direct(const Segment& s, const Work& w) {
  return w.by_rows != 0 && s.lists != 0;
}

// A tile's share of them.
struct Slots {
  std::uint64_t begin;
  std::uint32_t count;
};
__device__ inline Slots slots_of(const SelectArgs& a, std::uint32_t segment,
                                 std::uint32_t tile) {
  const Segment& s = a.segments[segment];
  const std::uint32_t first = a.first_tiles[segment];
  const std::uint64_t all =
      s.task.rows.slabs * s.task.rows.stride * s.task.rows.k;
  const std::uint64_t each = s.tile_rows_slots;
  const std::uint64_t begin = min_of(all, (tile - first) * each);
  return {s.row_slots + begin,
          static_cast<std::uint32_t>(min_of(each, all - begin))};
}

// Those of the share that hold an entry; by one warp.
__device__ inline unsigned count_listed(const SelectArgs& a, const Work& w,
                                        const Slots& slots) {
  if (w.missing == 0) return slots.count;
  unsigned count = 0;
  for (std::uint32_t i = lane(); i < slots.count; i += 32) {
    count += a.candidates[slots.begin + i].index != kNoEntry ? 1U : 0U;
  }
  return __reduce_add_sync(kAll, count);
}

__device__ inline void emit_listed(const SelectArgs& a, const Slots& slots,
                                   std::uint64_t out) {
  for (std::uint32_t at = 0; at < slots.count; at += 32) {
    const std::uint32_t i = at + lane();
    const Entry entry =
        i < slots.count ? a.candidates[slots.begin + i] : Entry{kNoEntry, 0};
    const bool there = entry.index != kNoEntry;
    const unsigned lanes = __ballot_sync(kAll, there);
    if (there) {
      const std::uint64_t o = out + __popc(lanes & ((1U << lane()) - 1));
      a.indices[o] = entry.index;
      a.values[o] = entry.value;
    }
    out += __popc(lanes);
  }
}

// How many entries of a tile lie above the cut and at it, by one warp.
__device__ inline void count_tile(const SelectArgs& a, std::uint32_t tile) {
  const std::uint32_t segment = warp_segment_of(a.first_tiles, a.count, tile);
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  Tile& t = a.tile[tile];
  unsigned take = 0;
  unsigned at_cut = 0;
  if (is_direct(s, w)) {
    take = count_listed(a, w, slots_of(a, segment, tile));
  } else if (is_marked(s, w)) {
    const std::uint64_t begin =
        std::uint64_t{tile - a.first_tiles[segment]} * kTile;
    const std::uint32_t* words = a.marks + s.words + begin / 32;
    const std::uint32_t count = words_in(s, begin);
    for (std::uint32_t i = lane(); i < count; i += 32) take += __popc(words[i]);
    take = __reduce_add_sync(kAll, take);
  } else if (w.selected > 0) {
    // What is taken whatever the rest of the search says.
    const std::uint32_t above = w.few != 0 ? w.base + w.width : w.cut + 1;
    for (std::uint32_t i = lane(); i < t.recorded; i += 32) {
      const Entry entry = a.candidates[t.offset + i];
      const std::uint32_t key = magnitude_key(entry.value);
      if (key >= above) {
        ++take;
      } else if (w.few == 0) {
        at_cut += key == w.cut ? 1U : 0U;
      } else if (key >= w.base) {
        const std::uint32_t slot = atomicAdd(&w.listed, 1U);
        a.few[segment * kFew + slot] = entry;
      }
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
    // By few atomics: all tiles of a segment add to one address.
    const std::uint32_t next = __shfl_down_sync(kAll, segment, 1);
    const bool ends = tile + 1 == range.end || lane() == 31 || next != segment;
    Work& w = a.works[segment];
    if (inside && ends && is_marked(a.segments[segment], w)) {
      atomicAdd(&w.marked, static_cast<unsigned long long>(sums[0]));
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
                                                   collectors(a) / a.tiles);
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

// The place of the bit before which `rank` are set. __fns takes long.
__device__ inline unsigned nth_bit(std::uint32_t bits, unsigned rank) {
  for (; rank > 0; --rank) bits &= bits - 1;
  return static_cast<unsigned>(__ffs(bits)) - 1;
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
      const std::uint64_t e =
          begin + std::uint64_t{at + owner} * 32 + nth_bit(bits, rank);
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
                                 std::uint32_t cut, std::uint64_t quota,
                                 std::uint64_t out) {
  if (t.offset == kUnrecorded) return;
  for (std::uint32_t at = 0; at < t.recorded; at += 32) {
    const std::uint32_t i = at + lane();
    const bool inside = i < t.recorded;
    const Entry entry = inside ? a.candidates[t.offset + i] : Entry{};
    const float x = entry.value;
    const std::uint32_t index = entry.index;
    const std::uint32_t key = magnitude_key(x);
    const bool tie = inside && key == cut;
    const unsigned ties = __ballot_sync(kAll, tie);
    const unsigned below = (1U << lane()) - 1;
    const bool take =
        inside &&
        (key > cut ||
         (tie && static_cast<unsigned>(__popc(ties & below)) < quota));
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
  constexpr unsigned kBatch = 8;
  for (std::uint32_t from = 0; from < kTile; from += kBatch * 32) {
    std::uint64_t places[kBatch];
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const std::uint64_t at = begin + from + j * 32 + lane();
      places[j] = at < s.task.facts.n ? at : kNoPlace;
    }
    float x[kBatch];
    load_at(source, places, x);
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const bool inside = places[j] != kNoPlace;
      const bool bad =
          magnitude_key(x[j]) >= kInfKey ||
          (hidden && inside && bit_at(a.bad_bits + s.words, places[j]));
      const std::uint32_t key = ranked_key(x[j], sign_of(s));
      const bool tie = inside && !bad && key == w.cut;
      const unsigned ties = __ballot_sync(kAll, tie);
      const unsigned below = (1U << lane()) - 1;
      const bool take =
          inside && !bad &&
          (key > w.cut ||
           (tie && static_cast<unsigned>(__popc(ties & below)) < quota));
      const unsigned taken = __ballot_sync(kAll, take);
      quota -= min_of<std::uint64_t>(quota, __popc(ties));
      if (take) {
        const std::uint64_t o = out + __popc(taken & below);
        a.indices[o] = s.task.base + static_cast<std::uint32_t>(places[j]);
        a.values[o] = x[j];
        if (s.task.memory != nullptr) s.task.memory[places[j]] = 0.0F;
      }
      out += __popc(taken);
    }
  }
}

// A tile of a segment whose cut is that of the few.
__device__ inline void emit_few(const SelectArgs& a, const Segment& s,
                                const Work& w, const Tile& t,
                                std::uint32_t first, const Cut& cut,
                                std::uint64_t out) {
  unsigned taken = 0;  // of the few, before this tile
  unsigned ties = 0;
  for (std::uint32_t i = lane(); i < cut.taken; i += 32) {
    if (cut.entries[i].index >= first) continue;
    ++taken;
    ties += magnitude_key(cut.entries[i].value) == cut.key ? 1U : 0U;
  }
  out += __reduce_add_sync(kAll, taken);
  emit_list(a, s, w, t, cut.key, cut.quota - __reduce_add_sync(kAll, ties),
            out);
}

__device__ inline void emit_tile(const SelectArgs& a, std::uint32_t segment,
                                 std::uint32_t tile, std::uint64_t start,
                                 const Carry& carry, const Cut* cut) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Tile t = a.tile[tile];
  if (is_direct(s, w)) {
    emit_listed(a, slots_of(a, segment, tile), start + carry.take + t.take);
    return;
  }
  if (is_marked(s, w)) {
    emit_marks(a, s, std::uint64_t{tile - a.first_tiles[segment]} * kTile,
               start + carry.take + t.take);
    return;
  }
  if (cut != nullptr) {
    const std::uint32_t first =
        s.task.base + (tile - a.first_tiles[segment]) * kTile;
    emit_few(a, s, w, t, first, *cut, start + carry.take + t.take);
    return;
  }
  const std::uint64_t ties = carry.at_cut + t.at_cut;
  const std::uint64_t used = min_of(ties, w.quota);
  const std::uint64_t out = start + carry.take + t.take + used;
  if (takes_ties(w) && t.ties > 0 && used < w.quota) {
    emit_ties(a, segment, tile, w.quota - used, out);
  } else if (t.recorded > 0) {
    emit_list(a, s, w, t, w.cut, w.quota - used, out);
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
    const Cut* cut = a.works[segment].few != 0 ? &cut_few(a, segment) : nullptr;
    for (std::uint32_t t = at + warp(); t < end; t += kWarps) {
      emit_tile(a, segment, t, start, carry, cut);
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
  const Work& w = a.works[segment];
  const Cut* few = w.few != 0 ? &cut_few(a, segment) : nullptr;
  if (threadIdx.x != 0) return;
  const Segment& s = a.segments[segment];
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
  outcome.tied = few != nullptr ? few->tied : w.tied != 0;
  if (w.by_rows == 0 && selected > 0) {
    const std::uint32_t cut = few != nullptr ? few->key : w.cut;
    outcome.threshold_key = max_of(cut, w.bracket.lo);
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
