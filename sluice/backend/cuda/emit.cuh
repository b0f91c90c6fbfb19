#pragma once

#include "sluice/backend/cuda/collect.cuh"

// From the cut to the block: the entries in order, reports, and what the rules
// remember.

namespace sluice::cuda {

// Finds the cut of a segment from the list of the few, of which the taken ones
// stay; by one block.
__device__ inline void settle_few(const SelectArgs& a, std::uint32_t segment) {
  __shared__ Entry all[kFew];
  __shared__ std::uint32_t taken;
  __shared__ std::uint32_t cut;
  __shared__ std::uint32_t at_cut[2];  // taken, and not
  Work& w = a.works[segment];
  Entry* few = a.few + std::size_t{segment} * kFew;
  const std::uint32_t listed = w.listed;
  const std::uint64_t rank = w.rank;
  const std::uint32_t i = threadIdx.x;
  __syncthreads();
  if (i == 0) taken = at_cut[0] = at_cut[1] = 0;
  if (i < listed) all[i] = few[i];
  __syncthreads();
  const Entry mine = i < listed ? all[i] : Entry{};
  const std::uint32_t own = magnitude_key(mine.value);
  std::uint32_t before = 0;
  if (i < listed) {
#pragma unroll 4
    for (std::uint32_t j = 0; j < listed; ++j) {
      const std::uint32_t key = magnitude_key(all[j].value);
      before += key > own || (key == own && all[j].index < mine.index) ? 1 : 0;
    }
    if (before < rank) few[atomicAdd(&taken, 1U)] = mine;
    if (before + 1 == rank) cut = own;
  }
  __syncthreads();
  if (i < listed && own == cut) atomicAdd(at_cut + (before < rank ? 0 : 1), 1U);
  __syncthreads();
  if (i != 0) return;
  w.cut = cut;
  w.quota = at_cut[0];
  w.tied = at_cut[1] > 0 ? 1 : 0;
  w.listed = taken;
}
static_assert(kFew <= kThreads);

// Where a warp's next entry goes, and how many of those at the cut it may take.
struct Outlet {
  std::uint64_t out;
  std::uint32_t cut;
  std::uint64_t quota;

  // Of 32 entries in order, where this lane's goes if it is taken; kNowhere if
  // not.
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  __device__ std::uint64_t place(bool there, std::uint32_t key) {
    const unsigned below = (1U << lane()) - 1;
    const bool tie = there && key == cut;
    const unsigned ties = __ballot_sync(kAll, tie);
    const bool take =
        there && (key > cut ||
                  (tie && static_cast<unsigned>(__popc(ties & below)) < quota));
    const unsigned taken = __ballot_sync(kAll, take);
    quota -= min_of<std::uint64_t>(quota, __popc(ties));
    const std::uint64_t at = out + __popc(taken & below);
    out += __popc(taken);
    return take ? at : kNowhere;
  }
};

__device__ inline void emit_slots(const SelectArgs& a, const Slots& slots,
                                  std::uint64_t out) {
  constexpr unsigned kBatch = 4;
  for (std::uint64_t at = 0; at < slots.count; at += 32 * kBatch) {
    Entry entries[kBatch];
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const std::uint64_t i = at + b * 32 + lane();
      entries[b] =
          i < slots.count ? a.candidates[slots.begin + i] : Entry{kNoEntry, 0};
    }
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const bool there = entries[b].index != kNoEntry;
      const unsigned lanes = __ballot_sync(kAll, there);
      if (there) {
        const std::uint64_t o = out + __popc(lanes & ((1U << lane()) - 1));
        a.indices[o] = entries[b].index;
        a.values[o] = entries[b].value;
      }
      out += __popc(lanes);
    }
  }
}

// The place of the bit before which `rank` are set. __fns takes long.
__device__ inline unsigned nth_bit(std::uint32_t bits, unsigned rank) {
  for (; rank > 0; --rank) bits &= bits - 1;
  return static_cast<unsigned>(__ffs(bits)) - 1;
}

// Marked entries, to `out` on. Their memory and marks are cleared.
__device__ inline void emit_marks(const SelectArgs& a, const Run& run,
                                  std::uint64_t out) {
  const Segment& s = a.segments[run.segment];
  const Words words = words_of(a, run);
  std::uint32_t* marks = a.marks + words.begin;
  const std::uint64_t begin = (words.begin - s.words) * 32;
  for (std::uint64_t at = 0; at < words.count; at += 32) {
    const std::uint64_t i = at + lane();
    const std::uint32_t word = i < words.count ? marks[i] : 0;
    if (word != 0) marks[i] = 0;
    unsigned total = 0;
    const unsigned before =
        warp_before(static_cast<unsigned>(__popc(word)), &total);
    // A lane per entry, so that their loads are under way together.
    for (unsigned from = 0; from < total; from += 32) {
      const unsigned entry = min_of(from + lane(), total - 1);
      const unsigned owner = owner_of(before, entry);
      const std::uint32_t bits = __shfl_sync(kAll, word, owner);
      const unsigned rank = entry - __shfl_sync(kAll, before, owner);
      if (from + lane() >= total) continue;
      const std::uint64_t e = begin + (at + owner) * 32 + nth_bit(bits, rank);
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

// Candidates of up to 32 tiles that are taken.
__device__ inline void emit_candidates(const SelectArgs& a,
                                       std::uint32_t segment,
                                       std::uint32_t begin, std::uint32_t end,
                                       Outlet& outlet) {
  // Copies: the compiler cannot know that what is stored is none of it.
  float* memory = a.segments[segment].task.memory;
  const std::uint32_t base = a.segments[segment].task.base;
  const std::uint32_t clear = clears_from(a.works[segment].bracket);
  std::uint32_t* indices = a.indices;
  float* values = a.values;
  for_candidates(a, begin, end, [&](bool there, const Entry& entry) {
    const std::uint32_t key = magnitude_key(entry.value);
    const std::uint64_t at = outlet.place(there, key);
    const bool take = at != Outlet::kNowhere;
    if (take) {
      indices[at] = entry.index;
      values[at] = entry.value;
    }
    if (!there || memory == nullptr) return;
    const bool gone = key >= clear;
    if (take != gone) memory[entry.index - base] = take ? 0.0F : entry.value;
  });
}

// A tile some of whose ties at the cut are taken: they are in no list.
__device__ inline void emit_ties(const SelectArgs& a, std::uint32_t segment,
                                 std::uint32_t tile, Outlet& outlet) {
  const Segment& s = a.segments[segment];
  const std::uint32_t first_tile = a.first_tiles[segment];
  const std::uint64_t begin = std::uint64_t{tile - first_tile} * kTile;
  Source source = source_of(a, s, a.works[segment]);
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
      const std::uint64_t at =
          outlet.place(inside && !bad, ranked_key(x[j], sign_of(s)));
      if (at == Outlet::kNowhere) continue;
      a.indices[at] = s.task.base + static_cast<std::uint32_t>(places[j]);
      a.values[at] = x[j];
      if (s.task.memory != nullptr) s.task.memory[places[j]] = 0.0F;
    }
  }
}

// The outlet of a warp that begins with a run, of whose segment `before` are
// counted before it.
__device__ inline Outlet outlet_of(const SelectArgs& a, const Run& run,
                                   std::uint64_t start, const Taken& before) {
  const Work& w = a.works[run.segment];
  if (w.few == 0) {
    const std::uint64_t used = min_of(before.at_cut, w.quota);
    return {start + before.above + used, w.cut, w.quota - used};
  }
  const std::uint32_t first = a.segments[run.segment].task.base +
                              (run.begin - a.first_tiles[run.segment]) * kTile;
  const Entry* few = a.few + std::size_t{run.segment} * kFew;
  unsigned taken = 0;  // of the few, before that tile
  unsigned ties = 0;
  for (std::uint32_t i = lane(); i < w.listed; i += 32) {
    if (few[i].index >= first) continue;
    ++taken;
    ties += magnitude_key(few[i].value) == w.cut ? 1U : 0U;
  }
  return {start + before.above + __reduce_add_sync(kAll, taken), w.cut,
          w.quota - __reduce_add_sync(kAll, ties)};
}

// By one warp.
__device__ inline void emit_run(const SelectArgs& a, const Run& run,
                                std::uint64_t start, const Taken& before) {
  const Segment& s = a.segments[run.segment];
  const Work& w = a.works[run.segment];
  if (is_direct(s, w)) {
    emit_slots(a, slots_of(a, run), start + before.above);
    return;
  }
  if (is_marked(s, w)) {
    emit_marks(a, run, start + before.above);
    return;
  }
  Outlet outlet = outlet_of(a, run, start, before);
  std::uint32_t at = run.begin;
  if (takes_ties(w)) {
    for (; at < run.end && outlet.quota > 0; ++at) {
      if (a.tile[at].ties > 0) {
        emit_ties(a, run.segment, at, outlet);
      } else {
        emit_candidates(a, run.segment, at, at + 1, outlet);
      }
    }
  }
  for (; at < run.end; at += 32) {
    emit_candidates(a, run.segment, at, min_of(at + 32, run.end), outlet);
  }
}

__device__ inline void emit_all(const SelectArgs& a) {
  const Range range = range_of(a, blockIdx.x);
  if (range.begin == range.end) return;
  const std::uint32_t first =
      warp_segment_of(a.first_tiles, a.count, range.begin);
  std::uint64_t start = start_of(a, first);
  const Taken by_blocks = taken_by_blocks(a, a.first_tiles[first]);
  const Range mine = range_of_warp(a);
  if (mine.begin == mine.end) return;
  std::uint32_t segment = warp_segment_of(a.first_tiles, a.count, mine.begin);
  unsigned long long between = 0;
  for (std::uint32_t s = first + lane(); s < segment; s += 32) {
    between += selected_of(a, s);
  }
  start += warp_sum(between);
  Taken before = taken_by_warps(segment);
  if (segment == first) before = before + by_blocks;
  for (std::uint32_t at = mine.begin; at < mine.end; ++segment) {
    const std::uint32_t end = min_of(mine.end, a.first_tiles[segment + 1]);
    if (at < end) emit_run(a, {segment, at, end}, start, before);
    at = end;
    start += selected_of(a, segment);
    before = {};
  }
}

// The report of a segment, and what its rule remembers. By one thread.
__device__ inline void report_segment(const SelectArgs& a,
                                      std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const std::uint64_t selected = selected_of(a, segment);
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

// Of all segments, a thread for each; and where their entries begin. By one
// block.
__device__ inline void report_all(const SelectArgs& a) {
  unsigned long long start = 0;
  for (std::uint32_t base = 0; base < a.count; base += kThreads) {
    const std::uint32_t segment = base + threadIdx.x;
    const bool there = segment < a.count;
    const unsigned long long selected = there ? selected_of(a, segment) : 0;
    unsigned long long total = 0;
    const unsigned long long before = block_before(selected, &total);
    if (there) {
      a.starts[segment] = start + before;
      report_segment(a, segment);
    }
    __syncwarp();
    start += total;
  }
  if (threadIdx.x == 0) a.starts[a.count] = start;
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
