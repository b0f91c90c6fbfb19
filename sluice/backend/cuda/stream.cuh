#pragma once

#include "sluice/backend/cuda/source.cuh"

// The pass over all elements of a segment: acc goes to the memory, what reaches
// the bracket to the candidates of its tile, in index order.

namespace sluice::cuda {

inline constexpr unsigned kQuads = kTile / (4 * kThreads);  // per thread

// Bit 4 * j + c speaks of the c-th element of a thread's j-th quad.
struct Masks {
  std::uint32_t hit = 0;   // recorded
  std::uint32_t high = 0;  // reaches hi
  std::uint32_t tie = 0;   // at lo, in a bracket of ties
  std::uint32_t bad = 0;   // not finite
};

__device__ inline std::uint32_t quad_at(unsigned j) {
  return (j * kThreads + threadIdx.x) * 4;
}

__device__ inline bool is_aligned(const void* p) {
  return (reinterpret_cast<std::uintptr_t>(p) & 15U) == 0;
}

__device__ inline void load_quad(const float* from, std::uint32_t at,
                                 std::uint32_t n, bool aligned, float (&x)[4]) {
  if (aligned && at + 4 <= n) {
    const float4 v = *reinterpret_cast<const float4*>(from + at);
    x[0] = v.x;
    x[1] = v.y;
    x[2] = v.z;
    x[3] = v.w;
    return;
  }
  for (unsigned c = 0; c < 4; ++c) x[c] = at + c < n ? from[at + c] : 0.0F;
}

__device__ inline void store_quad(float* to, std::uint32_t at, std::uint32_t n,
                                  bool aligned, std::uint32_t skip,
                                  const float (&x)[4]) {
  if (aligned && skip == 0 && at + 4 <= n) {
    *reinterpret_cast<float4*>(to + at) = make_float4(x[0], x[1], x[2], x[3]);
    return;
  }
  for (unsigned c = 0; c < 4; ++c) {
    if (at + c < n && (skip >> c & 1U) == 0) to[at + c] = x[c];
  }
}

// The accumulated tile in registers.
struct TileData {
  float acc[kQuads][4];
};

__device__ inline void load_tile(const Source& source, std::uint32_t n,
                                 bool aligned, TileData& data) {
  if (source.gradient == nullptr) {
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
      load_quad(source.memory, quad_at(j), n, aligned, data.acc[j]);
    }
    return;
  }
  float g[kQuads][4];
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    load_quad(source.gradient, quad_at(j), n, aligned, g[j]);
  }
  if (source.memory != nullptr) {
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
      load_quad(source.memory, quad_at(j), n, aligned, data.acc[j]);
    }
  }
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      const float added = source.gamma * g[j][c];
      data.acc[j][c] = source.memory == nullptr
                           ? added
                           : source.beta * data.acc[j][c] + added;
    }
  }
}

// The elements of a tile that were not finite in the first round, as a mask.
__device__ inline std::uint32_t hidden_mask(const std::uint32_t* words,
                                            std::uint32_t n) {
  std::uint32_t mask = 0;
  for (unsigned j = 0; j < kQuads; ++j) {
    const std::uint32_t at = quad_at(j);
    if (at >= n) continue;
    mask |= (words[at / 32] >> (at % 32) & 15U) << (4 * j);
  }
  return mask;
}

// Of the n elements of the tile: behind its last word others begin.
__device__ inline void hide(std::uint32_t* words, std::uint32_t n,
                            std::uint32_t bad) {
  for (unsigned j = 0; j < kQuads; ++j) {
    const std::uint32_t at = quad_at(j);
    const unsigned shift = at % 32;
    std::uint32_t word = (bad >> (4 * j) & 15U) << shift;
    for (int d = 1; d < 8; d *= 2) word |= __shfl_xor_sync(kAll, word, d);
    if (shift == 0 && at < n) words[at / 32] = word;
  }
}

__device__ inline Masks masks_of(const TileData& data, std::uint32_t n,
                                 std::uint32_t hidden, const Bracket& bracket,
                                 int sign) {
  Masks m;
  const std::uint32_t record = bracket.ties ? bracket.hi : bracket.lo;
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      const std::uint32_t bit = 1U << (4 * j + c);
      const float x = data.acc[j][c];
      const std::uint32_t key = ranked_key(x, sign);
      if (magnitude_key(x) >= kInfKey) m.bad |= bit;
      if (key >= record) m.hit |= bit;
      if (key >= bracket.hi) m.high |= bit;
      if (bracket.ties && key == bracket.lo) m.tie |= bit;
    }
  }
  std::uint32_t inside = (1U << (4 * kQuads)) - 1;
  if (n < kTile) {
    for (unsigned j = 0; j < kQuads; ++j) {
      for (unsigned c = 0; c < 4; ++c) {
        if (quad_at(j) + c >= n) inside &= ~(1U << (4 * j + c));
      }
    }
  }
  m.bad = (m.bad | hidden) & inside;
  const std::uint32_t good = inside & ~m.bad;
  m.hit &= good;
  m.high &= good;
  m.tie &= good;
  return m;
}

// Writes acc back, without what reached hi.
__device__ inline void keep_tile(const Source& source, std::uint32_t n,
                                 bool aligned, const TileData& data,
                                 std::uint32_t gone, std::uint32_t bad) {
  if (source.memory == nullptr) return;
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    const std::uint32_t drop = gone >> (4 * j) & 15U;
    if (source.gradient == nullptr) {
      for (unsigned c = 0; drop != 0 && c < 4; ++c) {
        if ((drop >> c & 1U) != 0) source.memory[quad_at(j) + c] = 0.0F;
      }
      continue;
    }
    float x[4];
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      x[c] = (drop >> c & 1U) != 0 ? 0.0F : data.acc[j][c];
    }
    store_quad(source.memory, quad_at(j), n, aligned, bad >> (4 * j) & 15U, x);
  }
}

// Where a thread's hits of each quad go in the list of the tile, and how many
// the tile has. Order: quad, warp, lane, element.
struct Places {
  std::uint32_t before[kQuads];
  std::uint32_t total;
};

__device__ inline Places places_of(std::uint32_t hit) {
  static_assert(kQuads == 4, "a byte per quad");
  __shared__ std::uint32_t totals[kWarps];
  std::uint32_t counts = 0;  // a byte per quad; a warp has at most 128
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    counts |= static_cast<std::uint32_t>(__popc(hit >> (4 * j) & 15U))
              << (8 * j);
  }
  std::uint32_t mine = 0;
  const std::uint32_t before = warp_before(counts, &mine);
  if (lane() == 0) totals[warp()] = mine;
  __syncthreads();
  Places p;
  std::uint32_t quads[kQuads] = {};
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) p.before[j] = before >> (8 * j) & 255U;
  for (unsigned w = 0; w < kWarps; ++w) {
    const std::uint32_t of_warp = totals[w];
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
      const std::uint32_t count = of_warp >> (8 * j) & 255U;
      if (w < warp()) p.before[j] += count;
      quads[j] += count;
    }
  }
  p.total = 0;
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    p.before[j] += p.total;
    p.total += quads[j];
  }
  return p;
}

// Where the list of a tile with so many hits goes; all threads get it.
__device__ inline std::uint64_t place_list(const Segment& s, Work& w,
                                           std::uint32_t local,
                                           std::uint32_t hits) {
  if (hits <= s.tile_slots) {
    return s.slots + std::uint64_t{local} * s.tile_slots;
  }
  __shared__ std::uint64_t at;
  if (threadIdx.x == 0) {
    const unsigned long long before =
        atomicAdd(&w.spilled, static_cast<unsigned long long>(hits));
    at = before + hits <= s.room ? s.spill + before : kUnrecorded;
  }
  __syncthreads();
  return at;
}

__device__ inline void record_tile(const SelectArgs& a, const TileData& data,
                                   const Masks& m, const Places& places,
                                   std::uint64_t offset, std::uint32_t first,
                                   const Work& w, std::uint32_t* bins) {
  if (m.hit == 0) return;
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    std::uint32_t at = places.before[j];
#pragma unroll
    for (unsigned c = 0; c < 4; ++c) {
      const std::uint32_t bit = 1U << (4 * j + c);
      if ((m.hit & bit) == 0) continue;
      const float x = data.acc[j][c];
      if (offset != kUnrecorded) {
        a.candidate_indices[offset + at] = first + quad_at(j) + c;
        a.candidate_values[offset + at] = x;
      }
      ++at;
      if ((m.high & bit) == 0) {
        atomicAdd(bins + ((magnitude_key(x) - w.bracket.lo) >> w.shift), 1U);
      }
    }
  }
}

// One tile of a segment that looks for a threshold. By one block.
__device__ inline void stream_tile(const SelectArgs& a, std::uint32_t segment,
                                   std::uint32_t tile) {
  const Segment& s = a.segments[segment];
  Work& w = a.works[segment];
  const std::uint32_t local = tile - a.first_tiles[segment];
  const std::uint64_t begin = std::uint64_t{local} * kTile;
  const auto n = static_cast<std::uint32_t>(
      min_of<std::uint64_t>(kTile, s.task.facts.n - begin));
  Source source = source_of(a, s, w);
  if (source.gradient != nullptr) source.gradient += begin;
  if (source.memory != nullptr) source.memory += begin;
  const bool aligned = is_aligned(source.gradient) && is_aligned(source.memory);

  TileData data;
  load_tile(source, n, aligned, data);
  Tile& out = a.tile[tile];
  std::uint32_t* words = a.bad_bits + s.words + begin / 32;
  const bool hides = w.settled != 0 && out.bad > 0;
  const Masks m = masks_of(data, n, hides ? hidden_mask(words, n) : 0,
                           w.bracket, sign_of(s));
  const std::uint32_t gone = w.bracket.ties ? 0 : m.high;
  keep_tile(source, n, aligned, data, gone, m.bad);

  const Places places = places_of(m.hit);
  const std::uint64_t offset = place_list(s, w, local, places.total);
  record_tile(a, data, m, places, offset,
              s.task.base + static_cast<std::uint32_t>(begin), w,
              a.cut_bins + std::size_t{segment} * kCutBins);
  if (offset == kUnrecorded && source.memory != nullptr) {
    // What no list holds must not leave the memory.
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
#pragma unroll
      for (unsigned c = 0; c < 4; ++c) {
        if ((gone >> (4 * j + c) & 1U) != 0) {
          source.memory[quad_at(j) + c] = data.acc[j][c];
        }
      }
    }
  }
  // Fields of 13 bits would do: 4096 elements.
  const auto counted = block_sum<unsigned long long>(
      static_cast<unsigned long long>(__popc(m.high)) |
      static_cast<unsigned long long>(__popc(m.tie)) << 20 |
      static_cast<unsigned long long>(__popc(m.bad)) << 40);
  const auto high = static_cast<std::uint32_t>(counted & 0xfffffU);
  const auto ties = static_cast<std::uint32_t>(counted >> 20 & 0xfffffU);
  const auto bad = static_cast<std::uint32_t>(counted >> 40);
  if (w.round == 0 && bad > 0) hide(words, n, m.bad);
  if (s.task.memory == nullptr && w.round == 0) {
    double mass = 0;
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j) {
#pragma unroll
      for (unsigned c = 0; c < 4; ++c) {
        const bool counts =
            quad_at(j) + c < n && (m.bad >> (4 * j + c) & 1U) == 0;
        if (counts) mass += fabs(static_cast<double>(data.acc[j][c]));
      }
    }
    mass = block_sum(mass);
    if (threadIdx.x == 0) a.tile_mass[tile] = mass;
  }
  if (threadIdx.x != 0) return;
  out.recorded = places.total;
  out.ties = ties;
  out.offset = offset;
  if (w.round == 0) {
    out.bad = bad;
    if (bad > 0) atomicAdd(&w.nonfinite, static_cast<unsigned long long>(bad));
  }
  if (places.total > 0) {
    atomicAdd(&w.recorded, static_cast<unsigned long long>(places.total));
  }
  if (high > 0) atomicAdd(&w.high, static_cast<unsigned long long>(high));
  if (ties > 0) atomicAdd(&w.ties, static_cast<unsigned long long>(ties));
}

// One tile of a segment whose entries have been drawn: acc goes to the memory,
// and marks of elements that are not finite go.
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

__device__ inline void stream_all(const SelectArgs& a) {
  for (std::uint32_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const std::uint32_t segment = segment_of(a.first_tiles, a.count, tile);
    const Work& w = a.works[segment];
    if (w.streaming == 0 || w.by_rows != 0) continue;
    if (a.segments[segment].task.kind == SelectKind::kListed) {
      stream_listed(a, segment, tile);
    } else {
      stream_tile(a, segment, tile);
    }
    __syncthreads();
  }
}

}  // namespace sluice::cuda
