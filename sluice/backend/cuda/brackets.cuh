#pragma once

#include <cooperative_groups.h>

#include "sluice/backend/cuda/rank_search.cuh"
#include "sluice/backend/cuda/rules.cuh"

// From the rules' queries to their brackets.

namespace sluice::cuda {

using Grid = cooperative_groups::grid_group;

// sum_tails by all threads of a block.
__device__ inline Tails block_tails(const std::uint32_t* histogram,
                                    TailSums* room) {
  constexpr auto kBins = static_cast<std::uint32_t>(kHistogramBins);
  const std::uint32_t each = kBins / kThreads;
  const std::uint32_t top = kBins - threadIdx.x * each;
  std::uint32_t first = kBins;
  std::uint32_t end = 0;
  TailSums mine = {};
  const auto bin = [&](std::uint32_t b) -> TailSums {
    const auto count = static_cast<double>(histogram[b]);
    if (histogram[b] == 0) return {};
    TailSums sums = uniform_sums(count, bin_edge(b), bin_edge(b + 1));
    if (b > 0) sums.logs = count * std::log(sums.sum / count);
    return sums;
  };
  const auto plus = [](TailSums x, const TailSums& y) {
    return TailSums{x.count + y.count, x.sum + y.sum, x.squares + y.squares,
                    x.logs + y.logs};
  };
  for (std::uint32_t b = top; b-- > top - each;) {
    if (histogram[b] == 0) continue;
    first = b;
    end = end > b + 1 ? end : b + 1;
    mine = plus(mine, bin(b));
  }
  first = block_reduce(
      first, [](std::uint32_t x, std::uint32_t y) { return x < y ? x : y; });
  end = block_reduce(
      end, [](std::uint32_t x, std::uint32_t y) { return x < y ? y : x; });
  TailSums total;
  TailSums sums;
  sums.count = block_before(mine.count, &total.count);
  sums.sum = block_before(mine.sum, &total.sum);
  sums.squares = block_before(mine.squares, &total.squares);
  sums.logs = block_before(mine.logs, &total.logs);
  if (first > end) first = end;
  if (threadIdx.x == 0) room[end] = {};
  for (std::uint32_t b = top; b-- > top - each;) {
    if (b >= end || b < first) continue;
    sums = plus(sums, bin(b));
    room[b] = sums;
  }
  __syncthreads();
  return {room, first, end};
}

// Goes on from an answer, which may ask anew. By one thread.
__device__ inline void take_answer(const SelectArgs& a, std::uint32_t segment,
                                   const Answer& answer) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const int sign = sign_of(s);
  w.asking = 0;
  if (w.exact != 0) {
    Bracket bracket = exact_bracket(w.query, answer);
    if (w.zeros == 0 && bracket.lo == 0) bracket = {1, 1};
    set_bracket(w, bracket, sign);
    return;
  }
  set_bracket(w, propose_rule(a, segment, answer), sign);
  if (w.bracket.exact) {
    select_exactly(s, w, s.task.facts.k, w.bracket.zeros);
  }
}

__device__ inline TailSums* tail_room(const SelectArgs& a) {
  return a.tail_sums + std::size_t{blockIdx.x} * (kHistogramBins + 1);
}

// The bracket of a segment whose large sample is complete. By one block.
__device__ inline void propose(const SelectArgs& a, std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const Sample sample(w.query, s.task.facts);
  Answer answer;
  answer.sampled = sample.count;
  Moments m;
  for (std::uint64_t c = threadIdx.x; c < chunks_of(sample); c += kThreads) {
    m = add_moments(m, a.moments[s.chunks + c]);
  }
  answer.moments = block_moments(m, w.query.sums);
  if (wants_bins(w.query)) {
    std::uint32_t* histogram = a.sample_bins + s.sample_bins;
    if (wants_ranks(w.query)) sample_keys(a, segment, answer);
    if (w.query.histogram) answer.tails = block_tails(histogram, tail_room(a));
    auto* quads = reinterpret_cast<uint4*>(histogram);
    for (std::size_t b = threadIdx.x; b < kHistogramBins / 4; b += kThreads) {
      quads[b] = {0, 0, 0, 0};
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) take_answer(a, segment, answer);
}

// A sample that a block holds: of each thread's elements the key and one more;
// 0 where there is none or it is not finite.
using HeldKeys = std::uint32_t[kHeld];

__device__ __forceinline__ Moments hold_sample(const SelectArgs& a,
                                               std::uint32_t segment,
                                               const Sample& sample,
                                               HeldKeys& keys) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const bool sums = w.query.sums;
  // Where the lines begin: to hash for each element takes longer than to load
  // it.
  auto* lines = reinterpret_cast<std::uint64_t*>(shared_words());
  const bool by_lines = sample.kind == Sample::kLines;
  if (by_lines) {
    for (unsigned l = threadIdx.x; l < sample.count / Sample::kLine;
         l += kThreads) {
      lines[l] = sample.line(l);
    }
  }
  __syncthreads();
  Moments m;
  constexpr unsigned kBatch = 16;
#pragma unroll
  for (unsigned from = 0; from < kHeld; from += kBatch) {
    std::uint64_t places[kBatch];
    float x[kBatch];
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const std::uint32_t i = (from + j) * kThreads + threadIdx.x;
      places[j] = i >= sample.count ? kNoPlace
                  : by_lines ? lines[i / Sample::kLine] + i % Sample::kLine
                             : sample.at(i);
    }
    load_at(source, places, x);
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      keys[from + j] = 0;
      if (places[j] == kNoPlace) continue;
      const bool bad = was_bad(a, s, w, a.first_tiles[segment], places[j]);
      const Sampled sampled = look_at(s, sums, x[j], bad, m);
      if (sampled.finite) keys[from + j] = sampled.key + 1;
    }
  }
  __syncthreads();
  return block_moments(m, sums);
}

// The key of a rank of those held, `finite` of them at most `top`; 0 if there
// are fewer. `close`: how far off it may be.
__device__ __forceinline__ std::uint32_t held_key(const HeldKeys& keys,
                                                  std::uint64_t rank,
                                                  std::uint64_t finite,
                                                  std::uint32_t top,
                                                  std::uint32_t close) {
  if (rank == 0 || rank > finite) return 0;
  __shared__ unsigned parts[2][kWarps];
  unsigned turn = 0;  // so that one barrier is enough
  const auto count = [&](std::uint32_t key) {
    unsigned reached = 0;
#pragma unroll
    for (unsigned j = 0; j < kHeld; ++j) reached += keys[j] >= key ? 1U : 0U;
    reached = __reduce_add_sync(kAll, reached);
    turn ^= 1U;
    if (lane() == 0) parts[turn][warp()] = reached;
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < kWarps; ++i) sum += parts[turn][i];
    return sum;
  };
  auto at_low = static_cast<unsigned>(finite);
  const std::uint32_t low =
      bisect(count, static_cast<unsigned>(rank), 1, top + 1, at_low, close);
  std::uint32_t least = ~0U;
#pragma unroll
  for (unsigned j = 0; j < kHeld; ++j) {
    if (keys[j] >= low) least = min_of(least, keys[j]);
  }
  return block_reduce(least, [](std::uint32_t x,
                                std::uint32_t y) { return min_of(x, y); }) -
         1;
}

// The bracket of a segment whose sample a block holds. By one block.
__device__ __noinline__ void propose_held(const SelectArgs& a,
                                          std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  const Query query = a.works[segment].query;
  const Sample sample(query, s.task.facts);
  Answer answer;
  answer.sampled = sample.count;
  if (sample.count > 0) {
    HeldKeys keys;
    answer.moments = hold_sample(a, segment, sample, keys);
    const std::uint32_t top =
        magnitude_key(static_cast<float>(answer.moments.max_abs));
    const std::uint32_t close = query.rough ? 1U << kHistogramShift : 1;
    for (unsigned r = 0; r < kRanks; ++r) {
      answer.keys[r] =
          held_key(keys, query.ranks[r], answer.moments.count, top, close);
    }
    if (query.histogram) {
      std::uint32_t* counts = shared_words();
      for (unsigned b = threadIdx.x; b < kHistogramBins; b += kThreads) {
        counts[b] = 0;
      }
      __syncthreads();
#pragma unroll
      for (unsigned j = 0; j < kHeld; ++j) {
        const std::uint32_t i = j * kThreads + threadIdx.x;
        // What is not finite counts as 0.
        const std::uint32_t key = keys[j] > 0 ? keys[j] - 1 : 0;
        if (i < sample.count) atomicAdd(counts + (key >> kHistogramShift), 1U);
      }
      __syncthreads();
      answer.tails = block_tails(counts, tail_room(a));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) take_answer(a, segment, answer);
  __syncthreads();
}

// Of every segment in a phase by which blocks take segments in turn.
template <class F>
__device__ void for_segments(const SelectArgs& a, F&& f) {
  for (std::uint32_t s = blockIdx.x; s < a.count; s += gridDim.x) f(s);
}

// The keys of the ranks of large samples, up to short lists.
__device__ inline void rank_samples(const SelectArgs& a, const Grid& grid) {
  for_segments(a, [&](std::uint32_t s) {
    if (is_ranked(a, s)) locate(a, s);
  });
  grid.sync();
  for (unsigned r = 0; r < kRanks; ++r) {
    while (any_crowded(a, r)) {
      count_crowded(a, r);
      grid.sync();
      for_segments(a, [&](std::uint32_t s) {
        if (is_crowded(a, s, r)) narrow(a, s, r);
        __syncthreads();
      });
      grid.sync();
    }
  }
  gather_keys(a);
  grid.sync();
}

// Brackets for all segments that ask for one. A rule may answer its statistics
// with "select exactly", which asks anew.
__device__ __noinline__ void find_brackets(const SelectArgs& a,
                                           const Grid& grid,
                                           std::uint32_t*& flag) {
  for (;;) {
    ++flag;
    for_segments(a, [&](std::uint32_t s) {
      while (a.works[s].asking != 0 && !asks_for_large(a, s)) {
        propose_held(a, s);
      }
      if (threadIdx.x == 0 && a.works[s].asking != 0) atomicAdd(flag, 1U);
    });
    grid.sync();
    if (*flag == 0) return;
    sample_all(a);
    // Before any block can propose, which may ask anew.
    const bool ranked = any_ranked(a);
    grid.sync();
    if (ranked) rank_samples(a, grid);
    for_segments(a, [&](std::uint32_t s) {
      const bool large = asks_for_large(a, s);
      __syncthreads();
      if (large) propose(a, s);
      __syncthreads();
    });
  }
}

}  // namespace sluice::cuda
