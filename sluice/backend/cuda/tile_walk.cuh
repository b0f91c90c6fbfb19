#pragma once

#include "sluice/backend/cuda/source.cuh"

// A tile of a segment on its way through a warp: acc goes to the memory, what
// reaches the bracket to the candidates of the tile, in index order.

namespace sluice::cuda {

inline constexpr std::uint32_t kRowElements = 128;  // four per lane
inline constexpr std::uint32_t kRowQuads = kRowElements / 4;
inline constexpr std::uint32_t kRowsAhead = 4;  // loaded before any is used

__device__ inline bool is_aligned(const void* p) {
  return (reinterpret_cast<std::uintptr_t>(p) & 15U) == 0;
}

// Elements [at, at + 4) of n.
__device__ inline float4 load_quad(const float* from, std::uint32_t at,
                                   std::uint32_t n, bool aligned) {
  if (aligned && at + 4 <= n) {
    return *reinterpret_cast<const float4*>(from + at);
  }
  float4 x = make_float4(0, 0, 0, 0);
  if (at < n) x.x = from[at];
  if (at + 1 < n) x.y = from[at + 1];
  if (at + 2 < n) x.z = from[at + 2];
  if (at + 3 < n) x.w = from[at + 3];
  return x;
}

__device__ inline float element(const float4& x, unsigned c) {
  return c == 0 ? x.x : c == 1 ? x.y : c == 2 ? x.z : x.w;
}

__device__ inline void store_quad(float* to, std::uint32_t at, std::uint32_t n,
                                  bool aligned, std::uint32_t skip,
                                  const float4& x) {
  if (aligned && skip == 0 && at + 4 <= n) {
    *reinterpret_cast<float4*>(to + at) = x;
    return;
  }
#pragma unroll
  for (unsigned c = 0; c < 4; ++c) {
    if (at + c < n && (skip >> c & 1U) == 0) to[at + c] = element(x, c);
  }
}

__device__ inline std::uint32_t high_key(const float4& x) {
  const std::uint32_t a = max_of(magnitude_key(x.x), magnitude_key(x.y));
  const std::uint32_t b = max_of(magnitude_key(x.z), magnitude_key(x.w));
  return max_of(a, b);
}

// A tile on its way through a warp. What counts is the same in all lanes.
struct TileWalk {
  const SelectArgs& a;
  const Segment& s;
  Work& w;
  Source source;  // from the tile's first element on
  std::uint32_t n;
  bool aligned;
  Bracket bracket;
  std::uint32_t record;  // smallest key that is recorded
  std::uint32_t notice;  // smallest key that anything must be done about
  std::uint32_t clear;   // smallest key that leaves the memory
  int sign;
  std::uint32_t shift;  // of the bins
  std::uint32_t* bins;
  std::uint32_t first;  // index of the first element
  std::uint64_t offset;
  std::uint32_t room;     // in the tile's own slots
  std::uint32_t* hidden;  // bits of the first round, or null
  std::uint32_t* hide;    // where to note what is not finite, or null
  std::uint32_t recorded = 0;
  std::uint32_t high = 0;
  std::uint32_t ties = 0;
  std::uint32_t bad = 0;
  std::uint32_t kept = 0;       // in the slots
  std::uint32_t full_at = ~0U;  // first row that had no room there
};

__device__ inline float4 accumulate(const Source& s, const float4& g,
                                    const float4& r) {
  if (s.gradient == nullptr) return r;
  float4 x =
      make_float4(s.gamma * g.x, s.gamma * g.y, s.gamma * g.z, s.gamma * g.w);
  if (s.memory == nullptr) return x;
  return make_float4(s.beta * r.x + x.x, s.beta * r.y + x.y, s.beta * r.z + x.z,
                     s.beta * r.w + x.w);
}

// Remembers what is not finite, for rounds in which the memory alone does not
// tell. The tile's words are cleared before its first such row.
__device__ __forceinline__ void note_bad(TileWalk& t, std::uint32_t at,
                                         std::uint32_t bad) {
  if (t.hide != nullptr) {
    if (t.bad == 0) {
      for (std::uint32_t i = lane(); i < (t.n + 31) / 32; i += 32) {
        t.hide[i] = 0;
      }
      __syncwarp();
    }
    std::uint32_t word = bad << (at % 32);
    for (int d = 1; d < 8; d *= 2) word |= __shfl_xor_sync(kAll, word, d);
    if (at % 32 == 0 && at < t.n) t.hide[at / 32] = word;
  }
  t.bad += __reduce_add_sync(kAll, static_cast<unsigned>(__popc(bad)));
}

// A row in which something reaches the bracket or is not finite. Returns what
// of this lane's elements must be zeroed, and in `keep` what must not be
// written.
__device__ __forceinline__ std::uint32_t note_row(TileWalk& t, std::uint32_t at,
                                                  const float4& x,
                                                  std::uint32_t& keep) {
  std::uint32_t hit = 0;
  std::uint32_t high = 0;
  std::uint32_t gone = 0;
  std::uint32_t tie = 0;
  std::uint32_t bad = 0;
#pragma unroll
  for (unsigned c = 0; c < 4; ++c) {
    const float v = element(x, c);
    const std::uint32_t key = ranked_key(v, t.sign);
    const std::uint32_t bit = at + c < t.n ? 1U << c : 0U;
    if (magnitude_key(v) >= kInfKey) bad |= bit;
    if (key >= t.record) hit |= bit;
    if (key >= t.bracket.hi) high |= bit;
    if (key >= t.clear) gone |= bit;
    if (t.bracket.ties && key == t.bracket.lo) tie |= bit;
  }
  if (t.hidden != nullptr && at < t.n) {
    bad |= t.hidden[at / 32] >> (at % 32) & 15U;
  }
  hit &= ~bad;
  high &= ~bad;
  gone &= ~bad;
  tie &= ~bad;
  if (__any_sync(kAll, bad != 0)) note_bad(t, at, bad);
  keep = bad;
  if (t.bracket.ties) {
    t.ties += __reduce_add_sync(kAll, static_cast<unsigned>(__popc(tie)));
  }
  unsigned total = 0;
  const unsigned before =
      warp_before(static_cast<unsigned>(__popc(hit)), &total);
  if (total == 0) return 0;
  t.high += __reduce_add_sync(kAll, static_cast<unsigned>(__popc(high)));
  if (t.full_at == ~0U && t.recorded + total > t.room) {
    t.full_at = at - 4 * lane();
    t.kept = t.recorded;
  }
  const bool fits = t.full_at == ~0U;
  std::uint64_t o = t.offset + t.recorded + before;
  t.recorded += total;
  if (hit != 0) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      if ((hit >> c & 1U) == 0) continue;
      const float v = element(x, c);
      if (fits) t.a.candidates[o++] = {t.first + at + c, v};
      if ((high >> c & 1U) == 0) {
        atomicAdd(t.bins + ((magnitude_key(v) - t.bracket.lo) >> t.shift), 1U);
      }
    }
  }
  // What no list holds must not leave the memory.
  return fits ? gone : 0;
}

__device__ inline void keep_row(const TileWalk& t, std::uint32_t at, float4 x,
                                std::uint32_t gone, std::uint32_t skip) {
  if (t.source.memory == nullptr) return;
  if (t.source.gradient == nullptr) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      if ((gone >> c & 1U) != 0) t.source.memory[at + c] = 0.0F;
    }
    return;
  }
  if ((gone & 1U) != 0) x.x = 0;
  if ((gone & 2U) != 0) x.y = 0;
  if ((gone & 4U) != 0) x.z = 0;
  if ((gone & 8U) != 0) x.w = 0;
  store_quad(t.source.memory, at, t.n, t.aligned, skip, x);
}

// From the element `row` on, whatever is asked for.
template <bool kMass>
__device__ __forceinline__ double walk_rows(TileWalk& t, std::uint32_t row) {
  double mass = 0;
  for (; row < t.n; row += kRowsAhead * kRowElements) {
    float4 g[kRowsAhead];
    float4 r[kRowsAhead];
#pragma unroll
    for (unsigned j = 0; j < kRowsAhead; ++j) {
      const std::uint32_t at = row + j * kRowElements + 4 * lane();
      if (t.source.gradient != nullptr) {
        g[j] = load_quad(t.source.gradient, at, t.n, t.aligned);
      }
      if (t.source.memory != nullptr) {
        r[j] = load_quad(t.source.memory, at, t.n, t.aligned);
      }
    }
#pragma unroll
    for (unsigned j = 0; j < kRowsAhead; ++j) {
      const std::uint32_t at = row + j * kRowElements + 4 * lane();
      if (at - 4 * lane() >= t.n) break;
      const float4 x = accumulate(t.source, g[j], r[j]);
      std::uint32_t gone = 0;
      std::uint32_t bad = 0;
      const bool some = high_key(x) >= t.notice || t.hidden != nullptr;
      if (__any_sync(kAll, some)) gone = note_row(t, at, x, bad);
      keep_row(t, at, x, gone, bad);
      if (kMass) {
#pragma unroll
        for (unsigned c = 0; c < 4; ++c) {
          const bool counts = at + c < t.n && (bad >> c & 1U) == 0;
          if (counts) mass += fabs(static_cast<double>(element(x, c)));
        }
      }
    }
  }
  return mass;
}

// A tile with more hits than slots: its list goes to `to`, the rows that the
// slots did not hold once more from where acc is now.
__device__ __forceinline__ void spill_tile(const TileWalk& t,
                                           std::uint64_t to) {
  for (std::uint32_t i = lane(); i < t.kept; i += 32) {
    t.a.candidates[to + i] = t.a.candidates[t.offset + i];
  }
  std::uint64_t out = to + t.kept;
  Source source = t.source;
  if (source.memory != nullptr) source.gradient = nullptr;
  const std::uint32_t* bits = t.hidden != nullptr ? t.hidden
                              : t.bad > 0         ? t.hide
                                                  : nullptr;
  for (std::uint32_t at = t.full_at + lane(); at - lane() < t.n; at += 32) {
    const bool inside = at < t.n;
    const float x = inside ? source.at(at) : 0.0F;
    const bool bad = magnitude_key(x) >= kInfKey ||
                     (inside && bits != nullptr && bit_at(bits, at));
    const std::uint32_t key = ranked_key(x, t.sign);
    const bool hit = inside && !bad && key >= t.record;
    const unsigned hits = __ballot_sync(kAll, hit);
    if (hit) {
      const std::uint64_t o = out + __popc(hits & ((1U << lane()) - 1));
      t.a.candidates[o] = {t.first + at, x};
      if (key >= t.clear && source.memory != nullptr) source.memory[at] = 0.0F;
    }
    out += __popc(hits);
  }
}

// There is no room for its list: nothing of it may leave the memory.
__device__ __forceinline__ void unrecord_tile(const TileWalk& t) {
  if (t.source.memory == nullptr) return;
  for (std::uint32_t i = lane(); i < t.kept; i += 32) {
    const Entry entry = t.a.candidates[t.offset + i];
    if (magnitude_key(entry.value) < t.clear) continue;
    t.source.memory[entry.index - t.first] = entry.value;
  }
}

__device__ inline std::uint32_t elements_in(const SelectArgs& a,
                                            std::uint32_t segment,
                                            std::uint32_t tile) {
  const std::uint64_t begin =
      std::uint64_t{tile - a.first_tiles[segment]} * kTile;
  return static_cast<std::uint32_t>(
      min_of<std::uint64_t>(kTile, a.segments[segment].task.facts.n - begin));
}

__device__ inline TileWalk walk_of(const SelectArgs& a, std::uint32_t segment,
                                   std::uint32_t tile) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const std::uint32_t local = tile - a.first_tiles[segment];
  const std::uint64_t begin = std::uint64_t{local} * kTile;
  Source source = source_of(a, s, w);
  if (source.gradient != nullptr) source.gradient += begin;
  if (source.memory != nullptr) source.memory += begin;
  const Bracket bracket = w.bracket;
  const std::uint32_t record = bracket.ties ? bracket.hi : bracket.lo;
  std::uint32_t* words = a.bad_bits + s.words + begin / 32;
  const bool hides = w.settled != 0 && a.tile[tile].bad > 0;
  return {a,
          s,
          w,
          source,
          elements_in(a, segment, tile),
          is_aligned(source.gradient) && is_aligned(source.memory),
          bracket,
          record,
          min_of(min_of(bracket.lo, record), kInfKey),
          clears_from(bracket),
          sign_of(s),
          w.shift,
          a.cut_bins + std::size_t{segment} * kCutBins,
          s.task.base + static_cast<std::uint32_t>(begin),
          s.slots + std::uint64_t{local} * s.tile_slots,
          s.tile_slots,
          hides ? words : nullptr,
          w.round == 0 ? words : nullptr};
}

}  // namespace sluice::cuda
