#pragma once

#include "sluice/backend/cuda/source.cuh"
#include "sluice/backend/sample.h"

// What the rules ask for before they propose a bracket: samples that are too
// large for a block, by all of them.

namespace sluice::cuda {

inline constexpr std::uint32_t kChunk = 128;  // elements of a sample per warp

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
SLUICE_HD inline bool wants_bins(const Query& query) {
  return query.histogram || wants_ranks(query);
}

// Their sum over those who reduce(x, op) together, to all of them.
template <class Reduce>
__device__ Moments sum_moments(const Moments& m, bool sums, Reduce&& reduce) {
  const auto plus = [](auto x, auto y) { return x + y; };
  const auto most = [](double x, double y) { return x < y ? y : x; };
  Moments out;
  out.count = reduce(static_cast<unsigned long long>(m.count), plus);
  out.nonfinite = reduce(static_cast<unsigned long long>(m.nonfinite), plus);
  out.max_abs = reduce(m.max_abs, most);
  if (!sums) return out;
  out.sum = reduce(m.sum, plus);
  out.sum_abs = reduce(m.sum_abs, plus);
  out.sum_sq = reduce(m.sum_sq, plus);
  return out;
}
__device__ inline Moments warp_moments(const Moments& m, bool sums) {
  return sum_moments(m, sums,
                     [](auto x, auto op) { return warp_reduce(x, op); });
}
__device__ inline Moments block_moments(const Moments& m, bool sums) {
  return sum_moments(m, sums,
                     [](auto x, auto op) { return block_reduce(x, op); });
}

// What elements of a sample add up to, by one thread.
struct Look {
  unsigned finite = 0;
  unsigned bad = 0;
  std::uint32_t top = 0;  // the largest key
  double sum = 0;
  double sum_abs = 0;
  double sum_sq = 0;

  // Of one more, the key and one more; 0 if it is not finite.
  __device__ __forceinline__ std::uint32_t at(float x, bool was_bad, int sign,
                                              bool sums) {
    if (was_bad || magnitude_key(x) >= kInfKey) {
      ++bad;
      return 0;
    }
    ++finite;
    const std::uint32_t key = ranked_key(x, sign);
    top = max_of(top, key);
    if (sums) {
      const auto v = static_cast<double>(x);
      sum += v;
      sum_abs += v < 0 ? -v : v;
      sum_sq += v * v;
    }
    return key + 1;
  }
  __device__ Moments moments() const {
    return {finite,  bad,    sum,
            sum_abs, sum_sq, static_cast<double>(key_value(top))};
  }
};

// Samples that a block holds by itself, so many elements a thread.
inline constexpr unsigned kHeld = 32;
inline constexpr std::uint64_t kHeldSample = kHeld * kThreads;

// Whether it is left to all blocks.
SLUICE_HD inline bool is_large(const Sample& sample) {
  return sample.count > kHeldSample;
}
__device__ inline bool asks_for_large(const SelectArgs& a,
                                      std::uint32_t segment) {
  const Work& w = a.works[segment];
  return w.asking != 0 && is_large(w.sample);
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
  Look look;
#pragma unroll
  for (unsigned e = 0; e < kEach; ++e) {
    const std::uint64_t j = from + e * 32;
    const bool inside = j < sample.count;
    std::uint32_t key = 0;
    if (inside) {
      const bool bad = was_bad(a, s, w, first_tile, places[e]);
      key = max_of(look.at(loaded[e], bad, sign_of(s), w.query.sums), 1U) - 1;
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
  const Moments m = warp_moments(look.moments(), w.query.sums);
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
  const Sample sample = a.works[segment].sample;
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
  std::uint32_t* histogram = a.sample_bins + a.segments[segment].sample_bins;
  for (unsigned b = threadIdx.x; b < kHistogramBins; b += kThreads) {
    if (counts[b] != 0) atomicAdd(histogram + b, counts[b]);
  }
  __syncthreads();
}

// The large samples, by teams of blocks, side by side.
__device__ inline void sample_all(const SelectArgs& a) {
  unsigned mine = 0;
  for (std::uint32_t s = threadIdx.x; s < a.count; s += kThreads) {
    mine += asks_for_large(a, s) ? 1U : 0U;
  }
  const std::uint32_t teams =
      max_of(1U, min_of(block_sum(mine), gridDim.x / 8));
  const std::uint32_t team = blockIdx.x % teams;
  std::uint32_t seen = 0;
  for (std::uint32_t s = 0; s < a.count; ++s) {
    if (!asks_for_large(a, s) || seen++ % teams != team) continue;
    sample_large(a, s, blockIdx.x / teams,
                 (gridDim.x - team + teams - 1) / teams);
  }
}
static_assert(kHistogramBins <= kSharedWords);

}  // namespace sluice::cuda
