#pragma once

#include "sluice/backend/cuda/rows.cuh"
#include "sluice/backend/cuda/tile_walk.cuh"

// The k largest of rows that follow each other in slabs small enough for a
// block, or contiguous: their entries go to lists, in the order of indices, and
// leave the memory at once.

namespace sluice::cuda {

// How rows are taken: each by a warp or by a block, or slabs of interleaved
// rows, several at a time, by a block that keeps them in shared memory.
enum class Lists : std::uint32_t { kNone, kWarp, kBlock, kSlabs };

inline constexpr std::uint32_t kSlabRoom = 9216;

SLUICE_HD inline std::uint32_t slab_size(const RowGeometry& rows) {
  return static_cast<std::uint32_t>(rows.length * rows.stride);
}
// Short rows several, so that enough is being loaded.
SLUICE_HD inline std::uint32_t rows_per_warp(std::uint64_t length) {
  return length <= 128 ? 4 : length <= 256 ? 2 : 1;
}
// Rows or slabs that a block takes at a time.
SLUICE_HD inline std::uint32_t slabs_at_a_time(const RowGeometry& rows,
                                               Lists how) {
  if (how == Lists::kWarp) return kWarps * rows_per_warp(rows.length);
  if (how == Lists::kBlock) return 1;
  return min_of(kSlabRoom / slab_size(rows), kWarps);
}

// Those who hold a row together: a warp, or a block.
struct WarpTeam {
  static constexpr unsigned kSize = 32;
  __device__ static unsigned id() { return lane(); }
  __device__ static unsigned sum(unsigned x) {
    return __reduce_add_sync(kAll, x);
  }
  __device__ static unsigned most(unsigned x) {
    return __reduce_max_sync(kAll, x);
  }
  __device__ static unsigned before(unsigned x, unsigned* total) {
    return warp_before(x, total);
  }
  __device__ static void sync() { __syncwarp(); }
  // A key that at least k members reach, if that many have one; k <= kSize.
  __device__ static std::uint32_t reached_by(std::uint32_t x, unsigned k) {
    return k == 1 ? most(x) : nth_of_lanes(x, k);
  }
};
struct BlockTeam {
  static constexpr unsigned kSize = kThreads;
  __device__ static unsigned id() { return threadIdx.x; }
  __device__ static unsigned sum(unsigned x) { return block_sum(x); }
  __device__ static unsigned most(unsigned x) {
    return block_reduce(x, [](unsigned a, unsigned b) { return max_of(a, b); });
  }
  __device__ static unsigned before(unsigned x, unsigned* total) {
    return block_before(x, total);
  }
  __device__ static void sync() { __syncthreads(); }
  __device__ static std::uint32_t reached_by(std::uint32_t x, unsigned k) {
    const std::uint32_t own = nth_of_lanes(x, (k + kWarps - 1) / kWarps);
    return block_reduce(
        own, [](std::uint32_t a, std::uint32_t b) { return min_of(a, b); });
  }
};

// Of a row, what decides between the last of its elements.
struct Listed {
  std::uint32_t key;  // then whether it is taken
  std::uint32_t place;
};
template <class Team>
__device__ inline Listed* list_of() {
  __shared__ Listed lists[kThreads];
  return lists + (Team::kSize == 32 ? warp() * 32 : 0);
}

// A row as its team holds it: each member kCount elements, kRun after kRun.
// at(j): the member's j-th, NaN where there is none or it is not finite, so
// that comparing takes one instruction; place(j): which of the row that is;
// value(place) and take(order, place, value) are of any member's.

template <unsigned kCount, class At>
__device__ __forceinline__ unsigned reach_in(At&& at, float low) {
  unsigned count = 0;
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) count += fabsf(at(j)) >= low ? 1U : 0U;
  return count;
}

// Takes the k largest that are not zero, if few reach what k members do; then a
// member for each decides. `highest`: the member's largest key. Returns how
// many it took; kTooMany, and nothing has happened, if too many do.
inline constexpr unsigned kTooMany = ~0U;
template <class Team, unsigned kCount, class At, class Place, class Value,
          class Take>
__device__ __forceinline__ unsigned take_few(At&& at, Place&& place,
                                             Value&& value,
                                             std::uint32_t highest, unsigned k,
                                             Take&& take) {
  if (k > Team::kSize) return kTooMany;
  // Not 0: where fewer than k members have any, those are all.
  const std::uint32_t key = max_of(Team::reached_by(highest, k), 1U);
  const float low = key_value(key);
  unsigned hits = 0;
#pragma unroll
  for (unsigned j = 0; j < kCount; ++j) {
    if (fabsf(at(j)) >= low) hits |= 1U << j;
  }
  unsigned reached = 0;
  unsigned o = Team::before(static_cast<unsigned>(__popc(hits)), &reached);
  if (reached > Team::kSize) return kTooMany;
  Listed* list = list_of<Team>();
  for (; hits != 0; hits &= hits - 1) {
    list[o++].place = place(static_cast<unsigned>(__ffs(hits)) - 1);
  }
  Team::sync();
  const unsigned i = Team::id();
  Listed mine = {0, ~0U};
  float x = 0;
  if (i < reached) {
    mine.place = list[i].place;
    x = value(mine.place);
    list[i].key = mine.key = magnitude_key(x);
  }
  Team::sync();
  bool taken = i < reached;
  if (taken && reached > k) {
    unsigned before = 0;
    for (unsigned j = 0; j < reached; ++j) {
      const Listed other = list[j];
      const bool first = other.key > mine.key ||
                         (other.key == mine.key && other.place < mine.place);
      before += first ? 1U : 0U;
    }
    taken = before < k;
  }
  Team::sync();
  if (i < reached) list[i].key = taken ? 1 : 0;
  Team::sync();
  if (taken) {
    unsigned order = 0;
    for (unsigned j = 0; j < reached; ++j) {
      order += list[j].place < mine.place ? list[j].key : 0;
    }
    take(order, mine.place, x);
  }
  Team::sync();
  return min_of(reached, k);
}

// Takes the k largest that are not zero, however they lie; returns how many.
template <class Team, unsigned kCount, unsigned kRun, class At, class Place,
          class Take>
__device__ __forceinline__ unsigned take_many(At&& at, Place&& place,
                                              std::uint32_t highest, unsigned k,
                                              Take&& take) {
  const auto count = [&](std::uint32_t key) {
    return Team::sum(reach_in<kCount>(at, key_value(key)));
  };
  unsigned reached = count(1);
  k = min_of(k, reached);
  if (k == 0) return 0;
  const std::uint32_t cut = bisect(count, k, 1, Team::most(highest), reached);
  const float low = key_value(cut);
  const bool tied = reached > k;
  unsigned quota = tied ? k - count(cut + 1) : k;
  unsigned done = 0;
#pragma unroll
  for (unsigned j = 0; j < kCount; j += kRun) {
    unsigned some = 0;
    unsigned ties = 0;
#pragma unroll
    for (unsigned c = 0; c < kRun; ++c) {
      if (fabsf(at(j + c)) >= low) some |= 1U << c;
      if (fabsf(at(j + c)) == low) ties |= 1U << c;
    }
    unsigned total = 0;
    if (tied) {
      unsigned o = Team::before(static_cast<unsigned>(__popc(ties)), &total);
#pragma unroll
      for (unsigned c = 0; c < kRun; ++c) {
        if ((ties >> c & 1U) != 0 && o++ >= quota) some &= ~(1U << c);
      }
      quota -= min_of(quota, total);
    }
    unsigned o =
        done + Team::before(static_cast<unsigned>(__popc(some)), &total);
    done += total;
#pragma unroll
    for (unsigned c = 0; c < kRun; ++c) {
      if ((some >> c & 1U) != 0) take(o++, place(j + c), at(j + c));
    }
  }
  return k;
}

// Of a quad, those that are not NaN.
__device__ __forceinline__ void store_finite(float4* to, const float4& x) {
  auto* single = reinterpret_cast<float*>(to);
#pragma unroll
  for (unsigned c = 0; c < 4; ++c) {
    const float v = element(x, c);
    if (v == v) single[c] = v;
  }
}

__device__ __forceinline__ float4 no_quad() {
  constexpr float kNone = __builtin_nanf("");
  return make_float4(kNone, kNone, kNone, kNone);
}

__device__ __forceinline__ float4 accumulated(const SelectArgs& a,
                                              const float4& g,
                                              const float4& r) {
  return make_float4(a.beta * r.x + a.gamma * g.x, a.beta * r.y + a.gamma * g.y,
                     a.beta * r.z + a.gamma * g.z,
                     a.beta * r.w + a.gamma * g.w);
}

// Makes what is not finite NaN; returns how many were.
__device__ __forceinline__ unsigned hide_bad(float4& x) {
  unsigned bad = 0;
  const auto look = [&](float& v) {
    if (magnitude_key(v) < kInfKey) return;
    v = __builtin_nanf("");
    ++bad;
  };
  look(x.x);
  look(x.y);
  look(x.z);
  look(x.w);
  return bad;
}

// How many of a row were not finite, and what is missing of the entries of its
// list: by the first of those who filled it.
__device__ inline void report_row(Work& w, unsigned bad, unsigned missing) {
  if (bad > 0) atomicAdd(&w.nonfinite, static_cast<unsigned long long>(bad));
  if (missing == 0) return;
  atomicAdd(&w.missing, static_cast<unsigned long long>(missing));
}

// Quads of a row or tile that have been accumulated, of which a team holds
// every Team::kSize-th each, to where they belong: to(q). What is not finite
// stays as it was there and is NaN from then on. highest: the member's largest
// key. Returns how many were not finite.
template <class Team, unsigned kQuads, class To>
__device__ __forceinline__ unsigned keep_quads(float4 (&x)[kQuads],
                                               std::uint32_t quads, To&& to,
                                               std::uint32_t& highest) {
  const auto quad = [](unsigned j) { return j * Team::kSize + Team::id(); };
  highest = 0;
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    if (quad(j) < quads) highest = max_of(highest, high_key(x[j]));
  }
  unsigned bad = 0;
  if (Team::most(highest) >= kInfKey) {
    highest = 0;
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
      if (quad(j) >= quads) continue;
      bad += hide_bad(x[j]);
#pragma unroll
      for (unsigned c = 0; c < 4; ++c) {
        const float v = element(x[j], c);
        if (v == v) highest = max_of(highest, magnitude_key(v));
      }
    }
    bad = Team::sum(bad);
  }
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    if (quad(j) >= quads) continue;
    if (bad == 0) {
      *to(quad(j)) = x[j];
    } else {
      store_finite(to(quad(j)), x[j]);
    }
  }
  return bad;
}

// Of those quads, the k largest elements that are not zero: take(order, place,
// value), where value(place) is what stands at an element of the row or tile.
// Returns how many.
template <class Team, unsigned kQuads, class Value, class Take>
__device__ __forceinline__ unsigned take_of_quads(const float4 (&x)[kQuads],
                                                  std::uint32_t highest,
                                                  unsigned k, Value&& value,
                                                  Take&& take) {
  const auto at = [&](unsigned j) { return element(x[j / 4], j % 4); };
  const auto place = [&](unsigned j) {
    return 4 * (j / 4 * Team::kSize + Team::id()) + j % 4;
  };
  const unsigned few =
      take_few<Team, 4 * kQuads>(at, place, value, highest, k, take);
  if (few != kTooMany) return few;
  return take_many<Team, 4 * kQuads, 4>(at, place, highest, k, take);
}

// One contiguous row that has been accumulated, by a team.
template <class Team, unsigned kQuads>
__device__ __forceinline__ void select_flat_row(const SelectArgs& a,
                                                const Segment& s, Work& w,
                                                float4 (&x)[kQuads],
                                                std::uint64_t row) {
  const auto quads = static_cast<std::uint32_t>(s.task.rows.length / 4);
  auto* r4 = reinterpret_cast<float4*>(s.task.memory) + row * quads;
  std::uint32_t highest = 0;
  // All of it first: what is taken is cleared behind it.
  const unsigned bad = keep_quads<Team>(
      x, quads, [&](std::uint32_t q) { return r4 + q; }, highest);
  Team::sync();
  const auto most = static_cast<unsigned>(s.task.rows.k);
  Entry* out = a.candidates + s.row_slots + row * most;
  const auto index = s.task.base + static_cast<std::uint32_t>(row * quads * 4);
  auto* single = reinterpret_cast<float*>(r4);
  const auto take = [&](unsigned order, std::uint32_t where, float value) {
    out[order] = {index + where, value};
    single[where] = 0;
  };
  const auto value = [&](std::uint32_t where) { return single[where]; };
  const unsigned taken = take_of_quads<Team>(x, highest, most, value, take);
  if (bad == 0 && taken == most) return;
  for (unsigned e = taken + Team::id(); e < most; e += Team::kSize) {
    out[e] = {kNoEntry, 0};
  }
  if (Team::id() == 0) report_row(w, bad, most - taken);
}

// kRows contiguous rows of at most 4 * kQuads elements a member, from `row` on.
template <class Team, unsigned kQuads, unsigned kRows>
__device__ __forceinline__ void select_flat_rows(const SelectArgs& a,
                                                 std::uint32_t segment,
                                                 std::uint64_t row) {
  const Segment& s = a.segments[segment];
  const auto quads = static_cast<std::uint32_t>(s.task.rows.length / 4);
  const auto* g4 = reinterpret_cast<const float4*>(s.task.gradient);
  const auto* r4 = reinterpret_cast<const float4*>(s.task.memory);
  float4 x[kRows][kQuads];
#pragma unroll
  for (unsigned i = 0; i < kRows; ++i) {
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
      const std::uint32_t quad = j * Team::kSize + Team::id();
      const std::uint64_t at = (row + i) * quads + quad;
      const bool there = quad < quads && row + i < s.task.rows.slabs;
      x[i][j] = there ? accumulated(a, g4[at], r4[at]) : no_quad();
    }
  }
#pragma unroll
  for (unsigned i = 0; i < kRows; ++i) {
    if (row + i >= s.task.rows.slabs) break;
    select_flat_row<Team>(a, s, a.works[segment], x[i], row + i);
  }
}

}  // namespace sluice::cuda
