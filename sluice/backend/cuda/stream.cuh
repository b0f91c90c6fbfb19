#pragma once

#include "sluice/backend/cuda/tile_walk.cuh"

// The pass over all elements. A warp takes a tile by itself, so that no warp
// waits for another.

namespace sluice::cuda {

// Whether walk_quads can begin it.
__device__ inline bool is_common(const TileWalk& t) {
  return t.source.gradient != nullptr && t.source.memory != nullptr &&
         t.aligned && t.n % 4 == 0 && t.sign == 0 && t.hidden == nullptr;
}

// One row of walk_quads: notes what reaches the bracket, and clears what is
// most likely taken. False, and nothing has happened, if something is not
// finite or the slots are full.
__device__ __forceinline__ bool note_quads(TileWalk& t, std::uint32_t quad,
                                           bool inside, float4& x) {
  if (__any_sync(kAll, high_key(x) >= kInfKey)) return false;
  const std::uint32_t keys[4] = {magnitude_key(x.x), magnitude_key(x.y),
                                 magnitude_key(x.z), magnitude_key(x.w)};
  const std::uint32_t lo = t.record;
  const std::uint32_t hi = t.bracket.hi;
  unsigned before = 0;
  unsigned total = 0;
#pragma unroll
  for (unsigned c = 0; c < 4; ++c) {
    const unsigned hits = __ballot_sync(kAll, keys[c] >= lo);
    before += static_cast<unsigned>(__popc(hits & ((1U << lane()) - 1)));
    total += static_cast<unsigned>(__popc(hits));
  }
  if (t.recorded + total > t.room) return false;
  if (t.bracket.ties && inside) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      t.ties += keys[c] == t.bracket.lo ? 1U : 0U;
    }
  }
  if (total == 0) return true;
  Entry* out = t.a.candidates + t.offset + t.recorded + before;
  t.recorded += total;
  const std::uint32_t index = t.first + 4 * quad;
#pragma unroll
  for (unsigned c = 0; c < 4; ++c) {
    if (keys[c] < lo) continue;
    *out++ = {index + c, element(x, c)};
    if (keys[c] >= hi) {
      ++t.high;
    } else {
      atomicAdd(t.bins + ((keys[c] - lo) >> t.shift), 1U);
    }
  }
  if (keys[0] >= t.clear) x.x = 0;
  if (keys[1] >= t.clear) x.y = 0;
  if (keys[2] >= t.clear) x.z = 0;
  if (keys[3] >= t.clear) x.w = 0;
  return true;
}

// walk_rows of what nearly all tiles are, with few registers and few
// instructions: the memory must stay busy. Returns the element up to which it
// came.
__device__ __forceinline__ std::uint32_t walk_quads(TileWalk& t) {
  const auto* g4 = reinterpret_cast<const float4*>(t.source.gradient);
  auto* r4 = reinterpret_cast<float4*>(t.source.memory);
  const float beta = t.source.beta;
  const float gamma = t.source.gamma;
  const std::uint32_t quads = t.n / 4;
  std::uint32_t stopped = t.n;
  for (std::uint32_t row = 0; row < quads && stopped == t.n;
       row += kRowsAhead * kRowQuads) {
    float4 g[kRowsAhead];
    float4 x[kRowsAhead];
#pragma unroll
    for (unsigned j = 0; j < kRowsAhead; ++j) {
      const std::uint32_t quad = row + j * kRowQuads + lane();
      g[j] = quad < quads ? g4[quad] : make_float4(0, 0, 0, 0);
      x[j] = quad < quads ? r4[quad] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (unsigned j = 0; j < kRowsAhead; ++j) {
      const std::uint32_t quad = row + j * kRowQuads + lane();
      x[j] = make_float4(
          beta * x[j].x + gamma * g[j].x, beta * x[j].y + gamma * g[j].y,
          beta * x[j].z + gamma * g[j].z, beta * x[j].w + gamma * g[j].w);
      if (__any_sync(kAll, high_key(x[j]) >= t.bracket.lo) &&
          !note_quads(t, quad, quad < quads, x[j])) {
        stopped = 4 * (quad - lane());
        break;
      }
      if (quad < quads) r4[quad] = x[j];
    }
  }
  t.high = __reduce_add_sync(kAll, t.high);
  t.ties = __reduce_add_sync(kAll, t.ties);
  return stopped;
}

// Sums of the tiles of one segment that a warp has walked.
struct Totals {
  unsigned long long recorded = 0;
  unsigned long long high = 0;
  unsigned long long ties = 0;
  unsigned long long bad = 0;

  __device__ void add_to(Work& w) {
    if (recorded > 0) atomicAdd(&w.recorded, recorded);
    if (high > 0) atomicAdd(&w.high, high);
    if (ties > 0) atomicAdd(&w.ties, ties);
    if (bad > 0) atomicAdd(&w.nonfinite, bad);
  }
};

// One tile of a segment that looks for a threshold, in the first pass. By one
// warp.
__device__ inline void stream_common(const SelectArgs& a, std::uint32_t segment,
                                     std::uint32_t tile, Totals& totals) {
  TileWalk t = walk_of(a, segment, tile);
  const std::uint32_t walked = is_common(t) ? walk_quads(t) : 0;
  if (lane() != 0) return;
  Tile& out = a.tile[tile];
  out.recorded = t.recorded;
  out.ties = t.ties;
  out.bad = 0;
  out.walked = walked;
  out.offset = t.offset;
  totals.recorded = t.recorded;
  totals.high = t.high;
  totals.ties = t.ties;
  if (walked < t.n) atomicAdd(a.unfinished, 1U);
}

// What the first pass left of a tile, or all of it in later rounds. By one
// warp.
__device__ inline void stream_tile(const SelectArgs& a, std::uint32_t segment,
                                   std::uint32_t tile, Totals& totals) {
  TileWalk t = walk_of(a, segment, tile);
  const bool first = t.w.round == 0;
  const std::uint32_t walked = first ? a.tile[tile].walked : 0;
  if (first) {
    t.recorded = a.tile[tile].recorded;
    t.ties = a.tile[tile].ties;
  }
  const std::uint32_t recorded = t.recorded;
  const std::uint32_t ties = t.ties;
  if (t.s.task.memory == nullptr && first) {
    const double mass = warp_sum(walk_rows<true>(t, walked));
    if (lane() == 0) a.tile_mass[tile] = mass;
  } else {
    walk_rows<false>(t, walked);
  }
  std::uint64_t offset = t.offset;
  if (t.recorded > t.room) {
    __syncwarp();
    offset = kUnrecorded;
    unsigned long long before = 0;
    if (lane() == 0) {
      before =
          atomicAdd(&t.w.spilled, static_cast<unsigned long long>(t.recorded));
    }
    before = __shfl_sync(kAll, before, 0);
    if (before + t.recorded <= t.s.room) {
      offset = t.s.spill + before;
      spill_tile(t, offset);
    } else {
      unrecord_tile(t);
    }
  }
  if (lane() == 0) {
    Tile& out = a.tile[tile];
    out.recorded = t.recorded;
    out.ties = t.ties;
    out.offset = offset;
    if (first) out.bad = t.bad;
  }
  totals.recorded += t.recorded - recorded;
  totals.high += t.high;
  totals.ties += t.ties - ties;
  if (first) totals.bad += t.bad;
}

// One tile of a segment whose entries have been drawn: acc goes to the memory,
// and marks of elements that are zero or not finite go. By one block.
__device__ inline void stream_listed(const SelectArgs& a, std::uint32_t segment,
                                     std::uint32_t tile) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const Source source = source_of(a, s, w);
  const std::uint64_t begin =
      std::uint64_t{tile - a.first_tiles[segment]} * kTile;
  double mass = 0;
  unsigned bad = 0;
  for (std::uint32_t i = threadIdx.x; i < kTile; i += kThreads) {
    const std::uint64_t at = begin + i;
    if (at >= s.task.facts.n) break;
    const float x = source.at(at);
    if (magnitude_key(x) >= kInfKey) {
      ++bad;
      atomicAnd(a.marks + s.words + at / 32, ~(1U << (at % 32)));
      continue;
    }
    if (x == 0 && bit_at(a.marks + s.words, at)) {
      atomicAnd(a.marks + s.words + at / 32, ~(1U << (at % 32)));
    }
    mass += fabs(static_cast<double>(x));
    if (source.memory != nullptr && source.gradient != nullptr) {
      source.memory[at] = x;
    }
  }
  bad = block_sum(bad);
  mass = block_sum(mass);
  if (threadIdx.x != 0) return;
  if (bad > 0) atomicAdd(&w.nonfinite, static_cast<unsigned long long>(bad));
  if (s.task.memory == nullptr) a.tile_mass[tile] = mass;
}

// The sums of the tiles of a block, one per warp, by as few atomics as there
// are segments: all blocks add to the same addresses.
__device__ inline void flush_together(const SelectArgs& a,
                                      std::uint32_t segment,
                                      const Totals& totals) {
  __shared__ std::uint32_t segments[kWarps];
  __shared__ unsigned long long sums[kWarps][3];
  if (lane() == 0) {
    segments[warp()] = segment;
    sums[warp()][0] = totals.recorded;
    sums[warp()][1] = totals.high;
    sums[warp()][2] = totals.ties;
  }
  __syncthreads();
  const unsigned i = threadIdx.x;
  if (i >= kWarps || segments[i] >= a.count) return;
  if (i > 0 && segments[i - 1] == segments[i]) return;
  Totals all;
  for (unsigned j = i; j < kWarps && segments[j] == segments[i]; ++j) {
    all.recorded += sums[j][0];
    all.high += sums[j][1];
    all.ties += sums[j][2];
  }
  all.add_to(a.works[segments[i]]);
}

// By kernels of few registers: the pass over what nearly all elements are. A
// warp for each tile.
__device__ inline void stream_first(const SelectArgs& a) {
  const std::uint32_t tile = blockIdx.x * kWarps + warp();
  std::uint32_t segment = a.count;
  Totals totals;
  if (tile < a.tiles) {
    segment = warp_segment_of(a.first_tiles, a.count, tile);
    const Work& w = a.works[segment];
    if (w.streaming != 0 && w.open != 0) {
      stream_common(a, segment, tile, totals);
    }
  }
  flush_together(a, segment, totals);
}

__device__ inline void draw_listed(const SelectArgs& a) {
  for (std::uint32_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const std::uint32_t segment = warp_segment_of(a.first_tiles, a.count, tile);
    if (a.segments[segment].task.kind != SelectKind::kListed ||
        a.works[segment].streaming == 0) {
      continue;
    }
    stream_listed(a, segment, tile);
    __syncthreads();
  }
}

// What the first pass has left, and all of later rounds.
__device__ __noinline__ void stream_rest(const SelectArgs& a) {
  for_shares(
      a, [](const Work& w) { return w.streaming != 0 && w.open != 0; },
      [&](const Share& share) {
        Work& w = a.works[share.segment];
        Totals totals;
        for (std::uint32_t t = share.begin; t < share.end; t += share.step) {
          const bool done =
              w.round == 0 &&
              a.tile[t].walked >= elements_in(a, share.segment, t);
          if (!done) stream_tile(a, share.segment, t, totals);
        }
        if (lane() == 0) totals.add_to(w);
      });
}

}  // namespace sluice::cuda
