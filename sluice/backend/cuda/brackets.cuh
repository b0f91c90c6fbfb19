#pragma once

#include <cooperative_groups.h>

#include "sluice/backend/cuda/rank_search.cuh"
#include "sluice/backend/cuda/rules.cuh"

// From the rules' queries to their brackets.

namespace sluice::cuda {

using Grid = cooperative_groups::grid_group;

// The first bin that holds any and the one behind the last.
__device__ inline Range used_bins(const std::uint32_t* histogram) {
  const auto* quads = reinterpret_cast<const uint4*>(histogram);
  std::uint32_t first = kHistogramBins;
  std::uint32_t end = 0;
#pragma unroll 4
  for (std::uint32_t q = threadIdx.x; q < kHistogramBins / 4; q += kThreads) {
    const uint4 four = quads[q];
    const unsigned some = (four.x != 0 ? 1U : 0U) | (four.y != 0 ? 2U : 0U) |
                          (four.z != 0 ? 4U : 0U) | (four.w != 0 ? 8U : 0U);
    if (some == 0) continue;
    first = min_of(first, 4 * q + static_cast<unsigned>(__ffs(some)) - 1);
    end = 4 * q + 32 - static_cast<unsigned>(__clz(static_cast<int>(some)));
  }
  first = block_reduce(
      first, [](std::uint32_t x, std::uint32_t y) { return min_of(x, y); });
  end = block_reduce(
      end, [](std::uint32_t x, std::uint32_t y) { return max_of(x, y); });
  return {min_of(first, end), end};
}

__device__ inline TailSums sums_of_bin(std::uint32_t b, std::uint32_t held) {
  if (held == 0) return {};
  const auto count = static_cast<double>(held);
  TailSums sums = uniform_sums(count, bin_edge(b), bin_edge(b + 1));
  if (b > 0) sums.logs = count * std::log(sums.sum / count);
  return sums;
}

// sum_tails by all threads of a block: kThreads bins at a time, from the
// highest down.
__device__ inline Tails block_tails(const std::uint32_t* histogram,
                                    TailSums* room) {
  const Range used = used_bins(histogram);
  TailSums above = {};
  if (threadIdx.x == 0) room[used.end] = {};
#pragma unroll 1
  for (std::uint32_t top = used.end; top > used.begin;) {
    const bool there = used.begin + threadIdx.x < top;
    const std::uint32_t b = there ? top - 1 - threadIdx.x : used.begin;
    const TailSums own = sums_of_bin(b, there ? histogram[b] : 0);
    TailSums all = {};
    TailSums sums = above;
    sums.count += own.count + block_before(own.count, &all.count);
    sums.sum += own.sum + block_before(own.sum, &all.sum);
    sums.squares += own.squares + block_before(own.squares, &all.squares);
    sums.logs += own.logs + block_before(own.logs, &all.logs);
    if (there) room[b] = sums;
    above = {above.count + all.count, above.sum + all.sum,
             above.squares + all.squares, above.logs + all.logs};
    top = max_of(top, used.begin + kThreads) - kThreads;
  }
  __syncthreads();
  return {room, used.begin, used.end};
}

// Goes on from an answer, which may ask anew. By one thread.
__device__ inline void take_answer(const SelectArgs& a, std::uint32_t segment,
                                   const Answer& answer) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  w.asking = 0;
  if (w.exact != 0) {
    set_bracket(w, exact_bracket(w.query, answer));
    return;
  }
  set_bracket(w, propose_rule(a, segment, answer));
  if (w.bracket.exact) select_exactly(s, w, s.task.facts.k);
}

__device__ inline TailSums* tail_room(const SelectArgs& a) {
  return a.tail_sums + std::size_t{blockIdx.x} * (kHistogramBins + 1);
}

// The bracket of a segment whose large sample is complete. By one block.
__device__ inline void propose(const SelectArgs& a, std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const Sample sample = w.sample;
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

// A sample that a block holds in shared memory: of each element the key and one
// more; 0 where there is none or it is not finite. Loops are kept short here:
// the code of a pass comes from memory as well, and is run once.
struct HeldSample {
  std::uint32_t keys[kHeldSample];
  std::uint64_t lines[kHeldSample / Sample::kLine];
};
// Elements of it that a thread loads at a time.
inline constexpr unsigned kHeldBatch = 16;
// Keys by which a rough one may be off: a thousandth.
inline constexpr std::uint32_t kRough = 1U << 13;
static_assert(sizeof(HeldSample) <= kSharedWords * sizeof(std::uint32_t));

__device__ inline Moments hold_sample(const SelectArgs& a,
                                      std::uint32_t segment,
                                      const Sample& sample, HeldSample& held) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const bool sums = w.query.sums;
  const bool settled = w.settled != 0;
  const int sign = sign_of(s);
  // Where the lines begin: to hash for each element takes longer than to load
  // it.
  const bool by_lines = sample.kind == Sample::kLines;
  if (by_lines) {
#pragma unroll 1
    for (unsigned l = threadIdx.x; l < sample.count / Sample::kLine;
         l += kThreads) {
      held.lines[l] = sample.line(l);
    }
  }
  __syncthreads();
  const auto place_of = [&](unsigned i) {
    return by_lines ? held.lines[i / Sample::kLine] + i % Sample::kLine
                    : sample.start + i * sample.stride;
  };
  constexpr unsigned kBatch = kHeldBatch;
#pragma unroll 1
  for (unsigned from = threadIdx.x; from - threadIdx.x < sample.count;
       from += kBatch * kThreads) {
    std::uint64_t places[kBatch];
    float x[kBatch];
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const unsigned i = from + j * kThreads;
      places[j] = i < sample.count ? place_of(i) : kNoPlace;
    }
    load_at(source, places, x);
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      held.keys[from + j * kThreads] = __float_as_uint(x[j]);
    }
  }
  // One by one: what follows is too long to stand there kBatch times.
  Look look;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < sample.count; i += kThreads) {
    const bool bad =
        settled && was_bad(a, s, w, a.first_tiles[segment], place_of(i));
    held.keys[i] = look.at(key_value(held.keys[i]), bad, sign, sums);
  }
  return block_moments(look.moments(), sums);
}

// How many of those held reach a key.
__device__ __forceinline__ unsigned reach_held(const HeldSample& held,
                                               unsigned batches,
                                               std::uint32_t key,
                                               unsigned (&parts)[kWarps]) {
  const auto* quads = reinterpret_cast<const uint4*>(held.keys);
  unsigned reached = 0;
#pragma unroll 1
  for (unsigned b = 0; b < batches; ++b) {
#pragma unroll
    for (unsigned i = 0; i < kHeldBatch / 4; ++i) {
      const uint4 four =
          quads[(b * kHeldBatch / 4 + i) * kThreads + threadIdx.x];
      reached += (four.x >= key ? 1U : 0U) + (four.y >= key ? 1U : 0U) +
                 (four.z >= key ? 1U : 0U) + (four.w >= key ? 1U : 0U);
    }
  }
  reached = __reduce_add_sync(kAll, reached);
  if (lane() == 0) parts[warp()] = reached;
  __syncthreads();
  unsigned sum = 0;
  for (unsigned i = 0; i < kWarps; ++i) sum += parts[i];
  return sum;
}

// The key of a rank of the `sampled` that are held; 0 if there are fewer.
// `close`: how far off it may be.
__device__ inline std::uint32_t held_key(const HeldSample& held,
                                         std::uint64_t rank,
                                         const Answer& answer,
                                         std::uint32_t close) {
  if (rank == 0 || rank > answer.moments.count) return 0;
  const auto batches = static_cast<unsigned>(
      (answer.sampled + kHeldBatch * kThreads - 1) / (kHeldBatch * kThreads));
  const auto top = magnitude_key(static_cast<float>(answer.moments.max_abs));
  __shared__ unsigned parts[2][kWarps];
  unsigned turn = 0;  // so that one barrier is enough
  const auto count = [&](std::uint32_t key) {
    turn ^= 1U;
    return reach_held(held, batches, key, parts[turn]);
  };
  const auto wanted = static_cast<unsigned>(rank);
  auto at_low = static_cast<unsigned>(answer.moments.count);
  std::uint32_t low = 1;
  std::uint32_t high = top + 1;
  if (close == 1) {  // of many equal keys, or zeros, it is soon known
    if (count(top + 1) >= wanted) return top;
    if (count(2) < wanted) return 0;
  }
  // Most likely it is not below a quarter of the largest.
  constexpr std::uint32_t kOctaves = 2U << 23;
  if (top > kOctaves) {
    const unsigned reached = count(top - kOctaves);
    if (reached >= wanted) {
      low = top - kOctaves;
      at_low = reached;
    } else {
      high = top - kOctaves - 1;
    }
  }
  low = bisect(count, wanted, low, high, at_low, close);
  if (close > 1) return low - 1;
  std::uint32_t least = ~0U;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < answer.sampled; i += kThreads) {
    if (held.keys[i] >= low) least = min_of(least, held.keys[i]);
  }
  const auto lower = [](std::uint32_t x, std::uint32_t y) {
    return min_of(x, y);
  };
  return block_reduce(least, lower) - 1;
}

// The tail sums of those held, whose place their histogram takes.
__device__ inline Tails held_tails(const SelectArgs& a, const HeldSample& held,
                                   std::uint64_t count) {
  std::uint32_t keys[kHeld];
#pragma unroll
  for (unsigned j = 0; j < kHeld; ++j) {
    keys[j] = held.keys[j * kThreads + threadIdx.x];
  }
  __syncthreads();
  std::uint32_t* bins = shared_words();
#pragma unroll 1
  for (unsigned b = threadIdx.x; b < kHistogramBins; b += kThreads) bins[b] = 0;
  __syncthreads();
#pragma unroll
  for (unsigned j = 0; j < kHeld; ++j) {
    // What is not finite counts as 0.
    const std::uint32_t key = max_of(keys[j], 1U) - 1;
    if (j * kThreads + threadIdx.x >= count) break;
    atomicAdd(bins + (key >> kHistogramShift), 1U);
  }
  __syncthreads();
  return block_tails(bins, tail_room(a));
}

// The bracket of a segment whose sample a block holds. By one block.
__device__ __noinline__ void propose_held(const SelectArgs& a,
                                          std::uint32_t segment) {
  auto& held = *reinterpret_cast<HeldSample*>(shared_words());
  const Query query = a.works[segment].query;
  const Sample sample = a.works[segment].sample;
  Answer answer;
  answer.sampled = sample.count;
  if (sample.count > 0) {
    answer.moments = hold_sample(a, segment, sample, held);
    const std::uint32_t close = query.rough ? kRough : 1;
#pragma unroll 1
    for (unsigned r = 0; r < kRanks; ++r) {
      answer.keys[r] = held_key(held, query.ranks[r], answer, close);
    }
    if (query.histogram) answer.tails = held_tails(a, held, sample.count);
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
