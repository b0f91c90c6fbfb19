#pragma once

#include "sluice/backend/cuda/block.cuh"
#include "sluice/backend/cuda/select.h"
#include "sluice/core/key.h"

// Elements of a segment, one by one.

namespace sluice::cuda {

// Of tiles or bins.
struct Range {
  std::uint32_t begin;
  std::uint32_t end;
};

// Where acc = beta * memory + gamma * gradient comes from: see cpu::Source.
struct Source {
  const float* gradient;
  float* memory;
  float beta;
  float gamma;

  __device__ float at(std::uint64_t i) const {
    if (gradient == nullptr) return memory[i];
    const float added = gamma * gradient[i];
    return memory == nullptr ? added : beta * memory[i] + added;
  }
};

// Several elements, all loaded before any is used; 0 where a place is kNoPlace.
inline constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};
template <unsigned kCount>
__device__ __forceinline__ void load_at(const Source& s,
                                        const std::uint64_t (&at)[kCount],
                                        float (&x)[kCount]) {
  float g[kCount];
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    const bool there = at[j] != kNoPlace;
    x[j] = there && s.memory != nullptr ? s.memory[at[j]] : 0.0F;
    g[j] = there && s.gradient != nullptr ? s.gradient[at[j]] : 0.0F;
  }
  if (s.gradient == nullptr) return;
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    const float added = s.gamma * g[j];
    x[j] = s.memory == nullptr ? added : s.beta * x[j] + added;
  }
}

__device__ inline Source source_of(const SelectArgs& a, const Segment& s,
                                   const Work& w) {
  const bool settled = w.settled != 0 && s.task.memory != nullptr;
  return {settled ? nullptr : s.task.gradient, s.task.memory, a.beta, a.gamma};
}

// The key that takes part in the selection; 0 for the other sign.
__device__ inline std::uint32_t ranked_key(float x, int sign) {
  if (sign == 0) return magnitude_key(x);
  const std::uint32_t bits = __float_as_uint(x) ^ (sign < 0 ? 0x80000000U : 0U);
  return static_cast<std::int32_t>(bits) < 0 ? 0U : bits;
}

__device__ inline int sign_of(const Segment& s) {
  return s.task.kind == SelectKind::kThreshold ? s.task.rule.sign : 0;
}

__device__ inline bool bit_at(const std::uint32_t* words, std::uint64_t i) {
  return (words[i / 32] >> (i % 32) & 1U) != 0;
}

// Whether element i was not finite when the memory still held what it was.
__device__ inline bool was_bad(const SelectArgs& a, const Segment& s,
                               const Work& w, std::uint32_t first_tile,
                               std::uint64_t i) {
  return w.settled != 0 && a.tile[first_tile + i / kTile].bad > 0 &&
         bit_at(a.bad_bits + s.words, i);
}

// The smallest key that leaves the memory as soon as it is recorded: about
// where the cut will be, since what is wrong is put right one by one, which
// takes memory as long as reading whole lines. None of a bracket of ties.
__device__ inline std::uint32_t clears_from(const Bracket& bracket) {
  return bracket.ties ? ~0U : bracket.lo + (bracket.hi - bracket.lo) / 2;
}

// The segment that a tile or unit belongs to; firsts has count + 1 entries. A
// warp asks for one of them, by few loads one after another.
template <class T>
__device__ std::uint32_t warp_segment_of(const T* firsts, std::uint32_t count,
                                         T index) {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > 1) {
    const std::uint32_t step = (high - low + 31) / 32;
    const std::uint32_t at = low + lane() * step;
    const bool reached = at < high && firsts[at] <= index;
    const unsigned lanes = __ballot_sync(kAll, reached);
    low += (static_cast<unsigned>(__popc(lanes)) - 1) * step;
    high = min_of(low + step, high);
  }
  return low;
}

// Tiles of a segment that a warp takes: begin, begin + step, ... below end.
struct Share {
  std::uint32_t segment;
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t step;
};

// Divides the tiles of each segment that wants(work) among all warps.
template <class Wants, class Use>
__device__ void for_shares(const SelectArgs& a, Wants&& wants, Use&& use) {
  const std::uint32_t warps = gridDim.x * kWarps;
  const std::uint32_t mine = blockIdx.x * kWarps + warp();
  // Small ones begin with different warps.
  const auto turn = [&](std::uint32_t segment) {
    return a.first_tiles[segment] + (mine + 61 * segment) % warps;
  };
  for (std::uint32_t base = 0; base < a.count; base += 32) {
    const std::uint32_t s = base + lane();
    const bool some =
        s < a.count && wants(a.works[s]) && turn(s) < a.first_tiles[s + 1];
    unsigned lanes = __ballot_sync(kAll, some);
    for (; lanes != 0; lanes &= lanes - 1) {
      const std::uint32_t segment =
          base + static_cast<std::uint32_t>(__ffs(lanes)) - 1;
      use(Share{segment, turn(segment), a.first_tiles[segment + 1], warps});
    }
  }
}

// The bin of a key that lies so far above the first; the last bin is open.
__device__ inline std::uint32_t cut_bin(std::uint32_t above,
                                        std::uint32_t shift) {
  return min_of(above >> shift, kCutBins - 1);
}

// How wide the bins of `width` keys are, as a power of two.
__device__ inline std::uint32_t cut_shift(std::uint32_t width) {
  if (width <= kCutBins) return 0;
  return 32 - static_cast<std::uint32_t>(__clz(static_cast<int>(width - 1))) -
         kCutBits;
}

}  // namespace sluice::cuda
