#include "sluice/backend/wire_shape.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;

// The columns of a tile are numbered in so many bits.
unsigned tile_shift(std::uint64_t columns) {
  return static_cast<unsigned>(std::bit_width(std::min(columns, kEdge) - 1));
}

}  // namespace

std::uint64_t row_entries(const SegmentForm& segment) {
  const RowGeometry& r = segment.rows.rows;
  if (r.k == 0) return 0;
  const bool tiles = segment.rows.tiles;
  std::uint64_t size = 0;
  if (r.length == 0 || r.stride == 0 ||
      __builtin_mul_overflow(tiles ? 1 : r.slabs, r.length, &size) ||
      __builtin_mul_overflow(size, r.stride, &size) || size != segment.size ||
      size > std::uint64_t{1} << 32) {
    return kCannot;
  }
  const std::uint64_t k = std::min<std::uint64_t>(r.k, size);
  const auto tiles_along = [&](std::uint64_t extent, std::uint64_t height,
                               std::uint64_t edge) {
    const std::uint64_t rest = extent % edge;
    return extent / edge * std::min(k, height * edge) +
           (rest > 0 ? std::min(k, height * rest) : 0);
  };
  if (!tiles) return r.slabs * r.stride * std::min<std::uint64_t>(k, r.length);
  if (r.length == 1) return tiles_along(r.stride, 1, kEdge * kEdge);
  const std::uint64_t rest = r.length % kEdge;
  return r.length / kEdge * tiles_along(r.stride, kEdge, kEdge) +
         (rest > 0 ? tiles_along(r.stride, rest, kEdge) : 0);
}

unsigned row_bits(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  const std::uint64_t positions =
      !layout.tiles ? r.length
      : r.length == 1
          ? std::min<std::uint64_t>(r.stride, kEdge * kEdge)
          : std::min<std::uint64_t>(r.length, kEdge) << tile_shift(r.stride);
  return static_cast<unsigned>(std::bit_width(positions - 1));
}

RowBands bands_of(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  RowBands out;
  out.runs = r.length;
  out.rest = r.slabs * r.length;
  if (layout.tiles && r.length == 1) {
    out.runs = kEdge * kEdge;
    out.rest = r.stride;
    return out;
  }
  out.stride = r.stride;
  if (layout.tiles) {
    out.runs = kEdge;
    out.rest = r.length;
    out.shift = tile_shift(r.stride);
  }
  out.groups = ((r.stride - 1) >> out.shift) + 1;
  out.last_width = r.stride - ((out.groups - 1) << out.shift);
  return out;
}

}  // namespace sluice
