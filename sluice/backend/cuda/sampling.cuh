#pragma once

#include "sluice/backend/cuda/source.cuh"
#include "sluice/backend/exact.h"
#include "sluice/backend/sample.h"
#include "sluice/sparsify/rules.h"

// What the rules ask for before they propose a bracket.

namespace sluice::cuda {

inline constexpr std::uint32_t kChunk = 2048;  // elements of a sample per block

__device__ inline Moments add_moments(Moments a, const Moments& b) {
  a.count += b.count;
  a.nonfinite += b.nonfinite;
  a.sum += b.sum;
  a.sum_abs += b.sum_abs;
  a.sum_sq += b.sum_sq;
  a.max_abs = a.max_abs < b.max_abs ? b.max_abs : a.max_abs;
  return a;
}

__device__ inline Moments block_moments(const Moments& m) {
  Moments out;
  out.count = block_sum<unsigned long long>(m.count);
  out.nonfinite = block_sum<unsigned long long>(m.nonfinite);
  out.sum = block_sum(m.sum);
  out.sum_abs = block_sum(m.sum_abs);
  out.sum_sq = block_sum(m.sum_sq);
  out.max_abs =
      block_reduce(m.max_abs, [](double x, double y) { return x < y ? y : x; });
  return out;
}

__device__ inline bool wants_bins(const Query& query) {
  return query.histogram || query.ranks[0] > 0 || query.ranks[1] > 0 ||
         query.ranks[2] > 0;
}

// One chunk of a segment's sample: its moments, keys and bins.
__device__ inline void sample_chunk(const SelectArgs& a, std::uint32_t segment,
                                    const Sample& sample, std::uint64_t chunk) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const std::uint32_t first_tile = a.first_tiles[segment];
  const bool bins = wants_bins(w.query);
  std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  Moments m;
  for (std::uint32_t i = threadIdx.x; i < kChunk; i += kThreads) {
    const std::uint64_t j = chunk * kChunk + i;
    const bool inside = j < sample.count;
    std::uint32_t key = 0;
    if (inside) {
      const std::uint64_t at = sample.at(j);
      const float x = source.at(at);
      if (magnitude_key(x) >= kInfKey || was_bad(a, s, w, first_tile, at)) {
        ++m.nonfinite;
      } else {
        const auto v = static_cast<double>(x);
        key = ranked_key(x, sign_of(s));
        ++m.count;
        m.sum += v;
        m.sum_abs += v < 0 ? -v : v;
        m.sum_sq += v * v;
        const auto magnitude = static_cast<double>(key_value(key));
        m.max_abs = m.max_abs < magnitude ? magnitude : m.max_abs;
      }
      if (j < s.key_room) a.keys[s.keys + j] = key;
    }
    if (!bins) continue;
    // Equal keys, of which there may be many, once per warp.
    const std::uint32_t bin = inside ? key >> kHistogramShift : ~0U;
    const unsigned same = __match_any_sync(kAll, bin);
    if (inside && lane() == static_cast<unsigned>(__ffs(same)) - 1) {
      atomicAdd(histogram + bin, static_cast<unsigned>(__popc(same)));
    }
  }
  m = block_moments(m);
  if (threadIdx.x == 0) a.moments[s.chunks + chunk] = m;
}

__device__ inline void sample_all(const SelectArgs& a) {
  for (std::uint32_t segment = 0; segment < a.count; ++segment) {
    const Work& w = a.works[segment];
    if (w.asking == 0) continue;
    const Sample sample(w.query, a.segments[segment].task.facts);
    const std::uint64_t chunks = (sample.count + kChunk - 1) / kChunk;
    // Segments begin at different blocks, so that many small ones spread.
    for (std::uint64_t c =
             (blockIdx.x + gridDim.x - segment % gridDim.x) % gridDim.x;
         c < chunks; c += gridDim.x) {
      sample_chunk(a, segment, sample, c);
    }
  }
}

// The bin of `bins` (a multiple of kThreads) that holds the rank-th largest,
// and how many lie in higher ones.
struct Found {
  std::uint32_t bin = 0;
  std::uint32_t inside = 0;  // in the bin
  unsigned long long above = 0;
  bool found = false;
};

__device__ inline Found find_bin(const std::uint32_t* histogram,
                                 std::uint32_t bins, std::uint64_t rank) {
  __shared__ Found out;
  if (threadIdx.x == 0) out = {};
  __syncthreads();
  // Thread 0 has the highest bins.
  const std::uint32_t each = bins / kThreads;
  const std::uint32_t top = bins - threadIdx.x * each;
  unsigned long long mine = 0;
  for (std::uint32_t b = top - each; b < top; ++b) mine += histogram[b];
  unsigned long long total = 0;
  unsigned long long above = block_before(mine, &total);
  if (rank > above && rank <= above + mine) {
    for (std::uint32_t b = top; b-- > top - each;) {
      if (above + histogram[b] >= rank) {
        out = {b, histogram[b], above, true};
        break;
      }
      above += histogram[b];
    }
  }
  __syncthreads();
  const Found found = out;
  __syncthreads();
  return found;
}

// The key of that rank in the sample; 0 if it has fewer.
__device__ inline std::uint32_t sample_key(const SelectArgs& a,
                                           std::uint32_t segment,
                                           std::uint64_t count,
                                           std::uint64_t rank) {
  const Segment& s = a.segments[segment];
  const std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  const Found at = find_bin(histogram, kHistogramBins, rank);
  if (!at.found) return 0;
  // Then 11 and 7 bits of the key inside the bin.
  const std::uint64_t stored = count < s.key_room ? count : s.key_room;
  const std::uint32_t* keys = a.keys + s.keys;
  std::uint32_t* bins = shared_words();
  std::uint32_t prefix = at.bin;
  std::uint32_t above = kHistogramShift;
  std::uint64_t left = rank - at.above;
  while (above > 0) {
    const std::uint32_t shift = above > 11 ? above - 11 : 0;
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) bins[b] = 0;
    __syncthreads();
    const auto add = [&](std::uint32_t key) {
      if (key >> above != prefix) return;
      atomicAdd(bins + (key >> shift & ((1U << (above - shift)) - 1)), 1U);
    };
    const auto* quads = reinterpret_cast<const uint4*>(keys);
#pragma unroll 8
    for (std::uint64_t i = threadIdx.x; i < stored / 4; i += kThreads) {
      const uint4 four = quads[i];
      add(four.x);
      add(four.y);
      add(four.z);
      add(four.w);
    }
    if (threadIdx.x < stored % 4) add(keys[stored / 4 * 4 + threadIdx.x]);
    __syncthreads();
    const Found found = find_bin(bins, kCutBins, left);
    left -= found.above;
    prefix = prefix << (above - shift) | found.bin;
    above = shift;
  }
  return prefix;
}

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

__device__ inline RuleCall call_of(const SelectArgs& a, std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  return {s.task.facts, s.task.rule.params, a.states[segment],
          a.works[segment].round};
}

// Kept apart from the hot loops: the rules need many registers.
__device__ __noinline__ Query ask_rule(const SelectArgs& a,
                                       std::uint32_t segment) {
  return by_id::ask(a.segments[segment].task.rule.id, call_of(a, segment));
}
__device__ __noinline__ Bracket propose_rule(const SelectArgs& a,
                                             std::uint32_t segment,
                                             const Answer& answer) {
  return by_id::propose(a.segments[segment].task.rule.id, call_of(a, segment),
                        answer);
}
__device__ __noinline__ Verdict judge_rule(const SelectArgs& a,
                                           std::uint32_t segment,
                                           const Counts& counts) {
  return by_id::judge(a.segments[segment].task.rule.id, call_of(a, segment),
                      counts);
}
__device__ __noinline__ void observe_rule(const SelectArgs& a,
                                          std::uint32_t segment,
                                          const Outcome& outcome) {
  by_id::observe(a.segments[segment].task.rule.id, call_of(a, segment),
                 outcome);
}

__device__ inline void select_exactly(const Segment& s, Work& w,
                                      std::uint64_t count, bool zeros) {
  w.exact = 1;
  w.wanted = count < s.task.capacity ? count : s.task.capacity;
  w.zeros = zeros ? 1 : 0;
  w.query = exact_query(s.task.facts.n, w.wanted);
  w.asking = 1;
}

__device__ inline void set_bracket(Work& w, const Bracket& bracket, int sign) {
  w.bracket = bracket;
  if (sign != 0) {
    // What has the other sign counts as key 0 and must not pass.
    w.bracket.lo = max_of(w.bracket.lo, 1U);
    w.bracket.hi = max_of(w.bracket.hi, w.bracket.lo);
  }
  w.shift = cut_shift(w.bracket.hi - w.bracket.lo);
}

// The bracket of a segment whose sample is complete. By one block.
__device__ inline void propose(const SelectArgs& a, std::uint32_t segment,
                               std::uint32_t* again) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const Sample sample(w.query, s.task.facts);
  Answer answer;
  answer.sampled = sample.count;
  Moments m;
  const std::uint64_t chunks = (sample.count + kChunk - 1) / kChunk;
  for (std::uint64_t c = threadIdx.x; c < chunks; c += kThreads) {
    m = add_moments(m, a.moments[s.chunks + c]);
  }
  answer.moments = block_moments(m);
  std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  if (sample.count > 0 && wants_bins(w.query)) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (w.query.ranks[i] == 0) continue;
      answer.keys[i] = sample_key(a, segment, sample.count, w.query.ranks[i]);
    }
    if (w.query.histogram) {
      answer.tails =
          block_tails(histogram, a.tail_sums + std::size_t{blockIdx.x} *
                                                   (kHistogramBins + 1));
    }
    for (std::size_t b = threadIdx.x; b < kHistogramBins; b += kThreads) {
      histogram[b] = 0;
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  w.asking = 0;
  const int sign = sign_of(s);
  if (w.exact != 0) {
    Bracket bracket = exact_bracket(w.query, answer);
    if (w.zeros == 0 && bracket.lo == 0) bracket = {1, 1};
    set_bracket(w, bracket, sign);
    return;
  }
  set_bracket(w, propose_rule(a, segment, answer), sign);
  if (!w.bracket.exact) return;
  select_exactly(s, w, s.task.facts.k, w.bracket.zeros);
  atomicAdd(again, 1U);
}

}  // namespace sluice::cuda
