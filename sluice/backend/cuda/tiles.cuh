#pragma once

#include "sluice/backend/cuda/row_lists.cuh"

// Tiles of a matrix, each held by a block. Its entries lie between those of its
// neighbours, so they are marked, and collected in order later.

namespace sluice::cuda {

SLUICE_HD inline bool is_in_quads(const float* p) {
  return p != nullptr && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// Tiles every row of which is whole quads.
SLUICE_HD inline bool is_held_tile(const SegmentTask& task) {
  return is_tiled(task) && task.rows.stride % 4 == 0 &&
         is_in_quads(task.gradient) && is_in_quads(task.memory);
}

// Where the quads of a tile stand in its tensor.
struct TileQuads {
  std::uint64_t start;
  std::uint32_t count;
  std::uint32_t across;  // of a row of the tile
  std::uint64_t stride;  // of the matrix

  __device__ std::uint64_t at(std::uint32_t quad) const {
    return start + quad / across * stride + quad % across;
  }
};

__device__ inline TileQuads quads_of(const Group& tile) {
  const std::uint64_t width = tile.width == 0 ? tile.size : tile.width;
  return {tile.start / 4, static_cast<std::uint32_t>(tile.size / 4),
          static_cast<std::uint32_t>(width / 4), tile.stride / 4};
}

// By one block.
__device__ inline void select_tile(const SelectArgs& a, std::uint32_t segment,
                                   std::uint64_t unit) {
  constexpr unsigned kQuads = RowGeometry::kTileSize / 4 / kThreads;
  const Segment& s = a.segments[segment];
  const TileQuads tile = quads_of(group_of(s.task, unit));
  const auto* g4 = reinterpret_cast<const float4*>(s.task.gradient);
  auto* r4 = reinterpret_cast<float4*>(s.task.memory);
  float4 x[kQuads];
#pragma unroll
  for (unsigned j = 0; j < kQuads; ++j) {
    const std::uint32_t quad = j * kThreads + threadIdx.x;
    const std::uint64_t at = tile.at(quad);
    x[j] = quad < tile.count ? accumulated(a, g4[at], r4[at]) : no_quad();
  }
  std::uint32_t highest = 0;
  const unsigned bad = keep_quads<BlockTeam>(
      x, tile.count, [&](std::uint32_t q) { return r4 + tile.at(q); }, highest);
  __syncthreads();
  const auto k = static_cast<unsigned>(s.task.rows.k);
  const auto at = [&](std::uint32_t place) {
    return 4 * tile.at(place / 4) + place % 4;
  };
  const auto value = [&](std::uint32_t place) {
    return s.task.memory[at(place)];
  };
  const auto take = [&](unsigned, std::uint32_t place, float) {
    mark(a, s, at(place));
  };
  take_of_quads<BlockTeam>(x, highest, k, value, take);
  if (threadIdx.x == 0) report_row(a.works[segment], bad, 0);
}

}  // namespace sluice::cuda
