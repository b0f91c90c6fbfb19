#pragma once

#include "sluice/backend/cuda/sampling.cuh"

// Which key has a rank: in a histogram, in a list, in a sample of many keys.

namespace sluice::cuda {

// Of those that begin like the one that is looked for, a list may hold so many.
inline constexpr std::uint32_t kListed = kSharedWords - kDigitBins;

// The smallest key of the k largest, between low, which at least k reach, and
// top; and how many reach it. count(key): how many of all do. If k of them
// reach one that is smaller, it may be that one; so it may if it is closer than
// `close`.
template <class Count>
__device__ __forceinline__ std::uint32_t bisect(Count&& count_of, unsigned k,
                                                std::uint32_t low,
                                                std::uint32_t top,
                                                unsigned& at_low,
                                                std::uint32_t close = 1) {
  std::uint32_t high = top + 1;
  while (high - low > close && at_low != k) {
    const std::uint32_t middle = low + (high - low) / 2;
    const unsigned count = count_of(middle);
    if (count >= k) {
      low = middle;
      at_low = count;
    } else {
      high = middle;
    }
  }
  return low;
}

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
      a.sample_bins + a.segments[segment].sample_bins;
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
  return min_of(w.sample.count, s.key_room);
}

__device__ inline bool is_ranked(const SelectArgs& a, std::uint32_t segment) {
  return asks_for_large(a, segment) && wants_ranks(a.works[segment].query);
}

__device__ inline bool any_ranked(const SelectArgs& a) {
  unsigned some = 0;
  for (std::uint32_t s = threadIdx.x; s < a.count; s += kThreads) {
    some += is_ranked(a, s) ? 1U : 0U;
  }
  return block_sum(some) != 0;
}

// Whether too many keys begin alike to be listed: most are equal then.
__device__ inline bool is_crowded(const SelectArgs& a, std::uint32_t segment,
                                  unsigned r) {
  const Ranked& ranked = a.works[segment].ranked[r];
  return is_ranked(a, segment) && ranked.left > 0 && ranked.open > 0 &&
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
  const std::uint32_t shift = open > kDigitBits ? open - kDigitBits : 0;
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
    for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) counts[b] = 0;
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
    for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) {
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
  const Found found = find_bin(bins, kDigitBins, ranked.left);
  for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) bins[b] = 0;
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
    if (!is_ranked(a, segment)) continue;
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
    for (unsigned b = threadIdx.x; b < kDigitBins; b += kThreads) bins[b] = 0;
    __syncthreads();
    for (std::uint32_t from = 0; from < count; from += kThreads) {
      const std::uint32_t i = from + threadIdx.x;
      count_digit(i < count ? keys[i] : 0, i < count, prefix, open, bins);
    }
    __syncthreads();
    const Found found = find_bin(bins, kDigitBins, left);
    left -= found.above;
    prefix = prefix << (open - digit.shift) | found.bin;
    open = digit.shift;
  }
  return prefix;
}

// The keys of the query's ranks in a large sample; 0 where it has fewer.
__device__ inline void sample_keys(const SelectArgs& a, std::uint32_t segment,
                                   Answer& answer) {
  const Segment& s = a.segments[segment];
  for (unsigned r = 0; r < kRanks; ++r) {
    const Ranked ranked = a.works[segment].ranked[r];
    if (ranked.left == 0) continue;
    answer.keys[r] = ranked.prefix;
    if (ranked.open == 0) continue;
    answer.keys[r] =
        search_keys(a.ranked + s.ranked + r * kListed, ranked.gathered,
                    ranked.prefix, ranked.open, ranked.left);
  }
}

}  // namespace sluice::cuda
