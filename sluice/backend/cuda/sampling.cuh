#pragma once

#include "sluice/backend/cuda/source.cuh"
#include "sluice/backend/exact.h"
#include "sluice/backend/sample.h"
#include "sluice/sparsify/rules.h"

// What the rules ask for before they propose a bracket.

namespace sluice::cuda {

inline constexpr std::uint32_t kChunk = 128;  // elements of a sample per warp
// A sample of more keys than this is searched by all blocks.
inline constexpr std::uint64_t kSpread = std::uint64_t{1} << 15;
// Of those that begin like the one that is looked for, a list may hold so many.
inline constexpr std::uint32_t kListed = kSharedWords - kCutBins;

__device__ inline Moments add_moments(Moments a, const Moments& b) {
  a.count += b.count;
  a.nonfinite += b.nonfinite;
  a.sum += b.sum;
  a.sum_abs += b.sum_abs;
  a.sum_sq += b.sum_sq;
  a.max_abs = a.max_abs < b.max_abs ? b.max_abs : a.max_abs;
  return a;
}

SLUICE_HD inline bool wants_ranks(const Query& query) {
  return query.ranks[0] > 0 || query.ranks[1] > 0 || query.ranks[2] > 0;
}
__device__ inline bool wants_bins(const Query& query) {
  return query.histogram || wants_ranks(query);
}

// The sum over the lanes of a warp, to all of them.
__device__ inline Moments warp_moments(const Moments& m, bool sums) {
  Moments out;
  out.count = __reduce_add_sync(kAll, static_cast<unsigned>(m.count));
  out.nonfinite = __reduce_add_sync(kAll, static_cast<unsigned>(m.nonfinite));
  out.max_abs =
      warp_reduce(m.max_abs, [](double x, double y) { return x < y ? y : x; });
  if (!sums) return out;
  out.sum = warp_sum(m.sum);
  out.sum_abs = warp_sum(m.sum_abs);
  out.sum_sq = warp_sum(m.sum_sq);
  return out;
}

__device__ inline Moments block_moments(const Moments& m, bool sums) {
  __shared__ Moments parts[kWarps];
  const Moments mine = warp_moments(m, sums);
  if (lane() == 0) parts[warp()] = mine;
  __syncthreads();
  Moments out = parts[0];
  for (unsigned i = 1; i < kWarps; ++i) out = add_moments(out, parts[i]);
  __syncthreads();
  return out;
}

// One chunk of a segment's sample: its moments, keys and bins. By one warp.
__device__ inline void sample_chunk(const SelectArgs& a, std::uint32_t segment,
                                    const Sample& sample, std::uint64_t chunk,
                                    std::uint32_t* histogram) {
  constexpr unsigned kEach = kChunk / 32;
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const std::uint32_t first_tile = a.first_tiles[segment];
  const bool bins = wants_bins(w.query);
  const std::uint64_t from = chunk * kChunk + lane();
  std::uint64_t places[kEach];
#pragma unroll
  for (unsigned e = 0; e < kEach; ++e) {
    const std::uint64_t j = from + e * 32;
    places[e] = j < sample.count ? sample.at(j) : kNoPlace;
  }
  float loaded[kEach];
  load_at(source, places, loaded);
  Moments m;
#pragma unroll
  for (unsigned e = 0; e < kEach; ++e) {
    const std::uint64_t j = from + e * 32;
    const bool inside = j < sample.count;
    const float x = loaded[e];
    const bool bad =
        magnitude_key(x) >= kInfKey ||
        (w.settled != 0 && inside && was_bad(a, s, w, first_tile, places[e]));
    std::uint32_t key = 0;
    if (inside && bad) ++m.nonfinite;
    if (inside && !bad) {
      key = ranked_key(x, sign_of(s));
      ++m.count;
      const auto magnitude = static_cast<double>(key_value(key));
      m.max_abs = m.max_abs < magnitude ? magnitude : m.max_abs;
      if (w.query.sums) {
        const auto v = static_cast<double>(x);
        m.sum += v;
        m.sum_abs += v < 0 ? -v : v;
        m.sum_sq += v * v;
      }
    }
    if (inside && j < s.key_room) a.keys[s.keys + j] = key;
    if (!bins) continue;
    // Equal keys, of which there may be many, once per warp.
    const std::uint32_t bin = inside ? key >> kHistogramShift : ~0U;
    const unsigned same = __match_any_sync(kAll, bin);
    if (inside && lane() == static_cast<unsigned>(__ffs(same)) - 1) {
      atomicAdd(histogram + bin, static_cast<unsigned>(__popc(same)));
    }
  }
  m = warp_moments(m, w.query.sums);
  if (lane() == 0) a.moments[s.chunks + chunk] = m;
}

__device__ inline std::uint64_t chunks_of(const Sample& sample) {
  return (sample.count + kChunk - 1) / kChunk;
}

// A large sample, by `blocks` blocks, of which this is the rank-th. Each counts
// by itself first: few bins hold most.
__device__ inline void sample_large(const SelectArgs& a, std::uint32_t segment,
                                    std::uint32_t rank, std::uint32_t blocks) {
  const std::uint32_t warps = blocks * kWarps;
  const Sample sample(a.works[segment].query, a.segments[segment].task.facts);
  std::uint32_t* counts = shared_words();
  for (unsigned b = threadIdx.x; b < kHistogramBins; b += kThreads) {
    counts[b] = 0;
  }
  __syncthreads();
  for (std::uint64_t c = warp() * blocks + rank; c < chunks_of(sample);
       c += warps) {
    sample_chunk(a, segment, sample, c, counts);
  }
  __syncthreads();
  std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  for (unsigned b = threadIdx.x; b < kHistogramBins; b += kThreads) {
    if (counts[b] != 0) atomicAdd(histogram + b, counts[b]);
  }
  __syncthreads();
}

// The samples of kThreads segments from `base` on: a warp for each chunk.
__device__ inline void sample_some(const SelectArgs& a, std::uint32_t base) {
  __shared__ std::uint32_t firsts[kThreads];
  __shared__ bool large[kThreads];
  const std::uint32_t segment = base + threadIdx.x;
  std::uint32_t chunks = 0;
  large[threadIdx.x] = false;
  if (segment < a.count && a.works[segment].asking != 0) {
    const Query& query = a.works[segment].query;
    const Sample sample(query, a.segments[segment].task.facts);
    large[threadIdx.x] = sample.count > kSpread && wants_bins(query);
    chunks = static_cast<std::uint32_t>(chunks_of(sample));
    if (large[threadIdx.x]) chunks = 0;
  }
  std::uint32_t total = 0;
  firsts[threadIdx.x] = block_before(chunks, &total);
  __syncthreads();
  const std::uint32_t count = min_of(kThreads, a.count - base);
  // Neighbours in different blocks.
  for (std::uint32_t c = warp() * gridDim.x + blockIdx.x; c < total;
       c += gridDim.x * kWarps) {
    const std::uint32_t i = warp_segment_of(firsts, count, c);
    const Sample sample(a.works[base + i].query,
                        a.segments[base + i].task.facts);
    sample_chunk(a, base + i, sample, c - firsts[i],
                 a.sample_bins + std::size_t{base + i} * kHistogramBins);
  }
  // Large ones by teams of blocks, side by side.
  std::uint32_t many = 0;
  for (std::uint32_t i = 0; i < count; ++i) many += large[i] ? 1U : 0U;
  const std::uint32_t teams = max_of(1U, min_of(many, gridDim.x / 8));
  const std::uint32_t team = blockIdx.x % teams;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!large[i] || seen++ % teams != team) continue;
    sample_large(a, base + i, blockIdx.x / teams,
                 (gridDim.x - team + teams - 1) / teams);
  }
  __syncthreads();
}

__device__ inline void sample_all(const SelectArgs& a) {
  for (std::uint32_t base = 0; base < a.count; base += kThreads) {
    sample_some(a, base);
  }
}
static_assert(kHistogramBins <= kSharedWords);

// The bin of `bins` (a multiple of 4 kThreads, at most 32 kThreads) that holds
// the rank-th largest, and how many lie in higher ones.
struct Found {
  std::uint32_t bin = 0;
  std::uint32_t inside = 0;  // in the bin
  unsigned long long above = 0;
  bool found = false;
};

__device__ inline Found find_bin(const std::uint32_t* histogram,
                                 std::uint32_t bins, std::uint64_t rank) {
  __shared__ unsigned long long above_part;
  __shared__ std::uint32_t part;  // the thread whose bins hold it
  if (threadIdx.x == 0) part = kThreads;
  // Thread 0 has the highest bins.
  const std::uint32_t each = bins / kThreads;
  const auto* quads = reinterpret_cast<const uint4*>(histogram) +
                      (kThreads - 1 - threadIdx.x) * (each / 4);
  unsigned long long mine = 0;
#pragma unroll 8
  for (std::uint32_t i = 0; i < each / 4; ++i) {
    const uint4 four = quads[i];
    mine += four.x + four.y + four.z + four.w;
  }
  unsigned long long total = 0;
  const unsigned long long above = block_before(mine, &total);
  if (rank > above && rank <= above + mine) {
    part = threadIdx.x;
    above_part = above;
  }
  __syncthreads();
  Found out;
  if (part < kThreads) {
    // A bin for each lane, the highest first; every warp finds the same.
    const std::uint32_t top = bins - part * each;
    const std::uint32_t bin = top - 1 - lane();
    const std::uint32_t count = lane() < each ? histogram[bin] : 0;
    const unsigned long long before = above_part + warp_before(count);
    const unsigned here =
        __ballot_sync(kAll, before < rank && rank <= before + count);
    const int owner = __ffs(here) - 1;
    out = {__shfl_sync(kAll, bin, owner), __shfl_sync(kAll, count, owner),
           __shfl_sync(kAll, before, owner), true};
  }
  __syncthreads();
  return out;
}

// The bins that hold the keys of a segment's query. By one block.
__device__ inline void locate(const SelectArgs& a, std::uint32_t segment) {
  Work& w = a.works[segment];
  const std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  for (unsigned r = 0; r < kRanks; ++r) {
    const std::uint64_t rank = w.query.ranks[r];
    const Found at =
        rank > 0 ? find_bin(histogram, kHistogramBins, rank) : Found{};
    if (threadIdx.x != 0) continue;
    w.ranked[r] = {};
    if (!at.found) continue;
    w.ranked[r].prefix = at.bin;
    w.ranked[r].open = kHistogramShift;
    w.ranked[r].inside = at.inside;
    w.ranked[r].left = rank - at.above;
  }
}

__device__ inline std::uint64_t stored_keys(const Segment& s, const Work& w) {
  return min_of(Sample(w.query, s.task.facts).count, s.key_room);
}

__device__ inline bool is_spread(const SelectArgs& a, std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  return w.asking != 0 && s.key_room > kSpread && wants_ranks(w.query) &&
         !w.query.rough && stored_keys(s, w) > kSpread;
}

__device__ inline bool any_spread(const SelectArgs& a) {
  unsigned some = 0;
  for (std::uint32_t s = threadIdx.x; s < a.count; s += kThreads) {
    some += is_spread(a, s) ? 1U : 0U;
  }
  return block_sum(some) != 0;
}

// Whether too many keys begin alike to be listed: most are equal then.
__device__ inline bool is_crowded(const SelectArgs& a, std::uint32_t segment,
                                  unsigned r) {
  const Ranked& ranked = a.works[segment].ranked[r];
  return is_spread(a, segment) && ranked.left > 0 && ranked.open > 0 &&
         ranked.inside > kListed;
}

__device__ inline bool any_crowded(const SelectArgs& a, unsigned r) {
  unsigned some = 0;
  for (std::uint32_t s = threadIdx.x; s < a.count; s += kThreads) {
    some += is_crowded(a, s, r) ? 1U : 0U;
  }
  return block_sum(some) != 0;
}

// The bits of the key that the next bins tell apart.
struct Digit {
  std::uint32_t shift;
  std::uint32_t mask;
};
__device__ inline Digit next_digit(std::uint32_t open) {
  const std::uint32_t shift = open > 11 ? open - 11 : 0;
  return {shift, (1U << (open - shift)) - 1};
}

// Counts the next digit of keys that begin with `prefix`. Equal ones, of which
// there may be many, once per warp; all of a warp's lanes call.
__device__ inline void count_digit(std::uint32_t key, bool there,
                                   std::uint32_t prefix, std::uint32_t open,
                                   std::uint32_t* bins) {
  const bool inside = there && key >> open == prefix;
  if (!__any_sync(kAll, inside)) return;
  const Digit digit = next_digit(open);
  const std::uint32_t bin = inside ? key >> digit.shift & digit.mask : ~0U;
  const unsigned same = __match_any_sync(kAll, bin);
  if (inside && lane() == static_cast<unsigned>(__ffs(same)) - 1) {
    atomicAdd(bins + bin, static_cast<unsigned>(__popc(same)));
  }
}

// The next digit of the crowded ones, by all blocks.
__device__ inline void count_crowded(const SelectArgs& a, unsigned r) {
  std::uint32_t* counts = shared_words();
  for (std::uint32_t segment = 0; segment < a.count; ++segment) {
    if (!is_crowded(a, segment, r)) continue;
    const Segment& s = a.segments[segment];
    const Ranked ranked = a.works[segment].ranked[r];
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) counts[b] = 0;
    __syncthreads();
    const std::uint64_t stored = stored_keys(s, a.works[segment]);
    for (std::uint64_t from = std::uint64_t{blockIdx.x} * kThreads;
         from < stored; from += std::uint64_t{gridDim.x} * kThreads) {
      const std::uint64_t j = from + threadIdx.x;
      const bool there = j < stored;
      count_digit(there ? a.keys[s.keys + j] : 0, there, ranked.prefix,
                  ranked.open, counts);
    }
    __syncthreads();
    std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) {
      if (counts[b] != 0) atomicAdd(bins + b, counts[b]);
    }
    __syncthreads();
  }
}

// Goes on to it. By one block.
__device__ inline void narrow(const SelectArgs& a, std::uint32_t segment,
                              unsigned r) {
  Ranked& ranked = a.works[segment].ranked[r];
  std::uint32_t* bins = a.cut_bins + std::size_t{segment} * kCutBins;
  const Found found = find_bin(bins, kCutBins, ranked.left);
  for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  if (threadIdx.x != 0) return;
  const Digit digit = next_digit(ranked.open);
  ranked.prefix = ranked.prefix << (ranked.open - digit.shift) | found.bin;
  ranked.open = digit.shift;
  ranked.inside = found.inside;
  ranked.left -= found.above;
}

// Adds the keys of a warp that begin like the one of a rank to its list.
template <unsigned kEach>
__device__ inline void gather_chunk(const SelectArgs& a, const Segment& s,
                                    Ranked& ranked, unsigned r,
                                    const std::uint32_t (&keys)[kEach],
                                    unsigned there) {
  unsigned inside = 0;
#pragma unroll
  for (unsigned e = 0; e < kEach; ++e) {
    if (e < there && keys[e] >> ranked.open == ranked.prefix) inside |= 1U << e;
  }
  unsigned total = 0;
  unsigned at = warp_before(static_cast<unsigned>(__popc(inside)), &total);
  if (total == 0) return;
  unsigned first = 0;
  if (lane() == 0) first = atomicAdd(&ranked.gathered, total);
  at += __shfl_sync(kAll, first, 0);
#pragma unroll
  for (unsigned e = 0; e < kEach; ++e) {
    if ((inside >> e & 1U) == 0) continue;
    a.ranked[s.ranked + r * kListed + at++] = keys[e];
  }
}

__device__ inline void gather_keys(const SelectArgs& a) {
  const std::uint32_t warps = gridDim.x * kWarps;
  const std::uint32_t mine = warp() * gridDim.x + blockIdx.x;
  for (std::uint32_t segment = 0; segment < a.count; ++segment) {
    if (!is_spread(a, segment)) continue;
    const Segment& s = a.segments[segment];
    Work& w = a.works[segment];
    const std::uint64_t stored = stored_keys(s, w);
    for (std::uint64_t c = mine; c * kChunk < stored; c += warps) {
      constexpr unsigned kEach = kChunk / 32;
      std::uint32_t keys[kEach];
      unsigned there = 0;  // the first so many
#pragma unroll
      for (unsigned e = 0; e < kEach; ++e) {
        const std::uint64_t j = c * kChunk + e * 32 + lane();
        keys[e] = j < stored ? a.keys[s.keys + j] : 0;
        there += j < stored ? 1U : 0U;
      }
      for (unsigned r = 0; r < kRanks; ++r) {
        if (w.ranked[r].left == 0 || w.ranked[r].open == 0) continue;
        gather_chunk(a, s, w.ranked[r], r, keys, there);
      }
    }
  }
}

// The left-th largest of the keys that begin with `prefix`, all but the `open`
// bits; by one block.
__device__ inline std::uint32_t search_keys(const std::uint32_t* keys,
                                            std::uint32_t count,
                                            std::uint32_t prefix,
                                            std::uint32_t open,
                                            std::uint64_t left) {
  std::uint32_t* bins = shared_words();
  while (open > 0) {
    const Digit digit = next_digit(open);
    for (unsigned b = threadIdx.x; b < kCutBins; b += kThreads) bins[b] = 0;
    __syncthreads();
    for (std::uint32_t from = 0; from < count; from += kThreads) {
      const std::uint32_t i = from + threadIdx.x;
      count_digit(i < count ? keys[i] : 0, i < count, prefix, open, bins);
    }
    __syncthreads();
    const Found found = find_bin(bins, kCutBins, left);
    left -= found.above;
    prefix = prefix << (open - digit.shift) | found.bin;
    open = digit.shift;
  }
  return prefix;
}

// The same where few begin so, unless most are equal: those are listed first.
__device__ inline std::uint32_t search_few(const std::uint32_t* keys,
                                           std::uint32_t count,
                                           const Ranked& ranked) {
  __shared__ std::uint32_t listed;
  std::uint32_t* list = shared_words() + kCutBins;
  __syncthreads();  // the last call's have been read
  if (threadIdx.x == 0) listed = 0;
  __syncthreads();
  const auto inside = [&](std::uint32_t key) {
    return key >> ranked.open == ranked.prefix;
  };
  const auto add = [&](std::uint32_t key, std::uint32_t& at) {
    if (!inside(key)) return;
    if (at < kListed) list[at] = key;
    ++at;
  };
  // All of a batch are loaded before any is used.
  constexpr unsigned kBatch = 8;
  const auto* quads = reinterpret_cast<const uint4*>(keys);
  const std::uint32_t whole = count / 4;
  for (std::uint32_t from = threadIdx.x; from < whole;
       from += kBatch * kThreads) {
    uint4 k[kBatch];
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      const std::uint32_t i = from + j * kThreads;
      k[j] = quads[min_of(i, whole - 1)];
    }
#pragma unroll
    for (unsigned j = 0; j < kBatch; ++j) {
      if (from + j * kThreads >= whole) break;
      const unsigned some = static_cast<unsigned>(inside(k[j].x)) +
                            inside(k[j].y) + inside(k[j].z) + inside(k[j].w);
      if (some == 0) continue;
      std::uint32_t at = atomicAdd(&listed, some);
      add(k[j].x, at);
      add(k[j].y, at);
      add(k[j].z, at);
      add(k[j].w, at);
    }
  }
  const std::uint32_t last = whole * 4 + threadIdx.x;
  if (last < count && inside(keys[last])) {
    std::uint32_t at = atomicAdd(&listed, 1U);
    add(keys[last], at);
  }
  __syncthreads();
  const bool fits = listed <= kListed;
  return search_keys(fits ? list : keys, fits ? listed : count, ranked.prefix,
                     ranked.open, ranked.left);
}

// The keys of the query's ranks as their bins tell: those inside may lie
// evenly.
__device__ inline void rough_keys(const SelectArgs& a, std::uint32_t segment,
                                  Answer& answer) {
  const std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  const Query query = a.works[segment].query;
  for (unsigned r = 0; r < kRanks; ++r) {
    if (query.ranks[r] == 0) continue;
    const Found at = find_bin(histogram, kHistogramBins, query.ranks[r]);
    if (!at.found) continue;
    const auto left = static_cast<double>(query.ranks[r] - at.above);
    const double share = (at.inside - left + 0.5) / at.inside;
    answer.keys[r] =
        (at.bin << kHistogramShift) +
        static_cast<std::uint32_t>(share * (1U << kHistogramShift));
  }
}

// The keys of the query's ranks in the sample; 0 where it has fewer.
__device__ inline void sample_keys(const SelectArgs& a, std::uint32_t segment,
                                   Answer& answer) {
  const Segment& s = a.segments[segment];
  const Work& w = a.works[segment];
  if (w.query.rough) {
    rough_keys(a, segment, answer);
    return;
  }
  const bool spread = is_spread(a, segment);
  if (!spread) locate(a, segment);
  __syncthreads();
  for (unsigned r = 0; r < kRanks; ++r) {
    const Ranked ranked = w.ranked[r];
    if (ranked.left == 0) continue;
    if (ranked.open == 0) {
      answer.keys[r] = ranked.prefix;
    } else if (spread) {
      answer.keys[r] = search_few(a.ranked + s.ranked + r * kListed,
                                  ranked.gathered, ranked);
    } else {
      answer.keys[r] =
          search_few(a.keys + s.keys,
                     static_cast<std::uint32_t>(stored_keys(s, w)), ranked);
    }
  }
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
  answer.moments = block_moments(m, w.query.sums);
  std::uint32_t* histogram =
      a.sample_bins + std::size_t{segment} * kHistogramBins;
  if (sample.count > 0 && wants_bins(w.query)) {
    if (wants_ranks(w.query)) sample_keys(a, segment, answer);
    if (w.query.histogram) {
      answer.tails =
          block_tails(histogram, a.tail_sums + std::size_t{blockIdx.x} *
                                                   (kHistogramBins + 1));
    }
    auto* quads = reinterpret_cast<uint4*>(histogram);
    for (std::size_t b = threadIdx.x; b < kHistogramBins / 4; b += kThreads) {
      quads[b] = {0, 0, 0, 0};
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
