#include "sluice/backend/cpu/wire_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace sluice::cpu::wire {
namespace {

constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;

// The columns of a tile are numbered in so many bits.
unsigned tile_shift(std::uint64_t columns) {
  return static_cast<unsigned>(std::bit_width(std::min(columns, kEdge) - 1));
}

// A run of groups that share a stretch of indices; see Slab in rows.cpp.
struct Band {
  std::uint64_t start = 0;  // index of its first element
  std::uint64_t runs = 0;
  std::uint64_t stride = 1;
  unsigned shift = 0;
  // ceil(2^64 / stride), to divide numbers below 2^32 by it; 0 for 1.
  std::uint64_t inverse = 0;

  std::uint64_t size() const { return runs * stride; }
  std::uint64_t groups() const {
    return (stride + (std::uint64_t{1} << shift) - 1) >> shift;
  }
  std::uint64_t width(std::uint64_t group) const {
    return std::min(std::uint64_t{1} << shift, stride - (group << shift));
  }
  std::uint64_t run_of(std::uint64_t offset) const {
    if (inverse == 0) return offset;
    return static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(offset) * inverse >> 64);
  }
};

// Calls f(band) for every band of the layout, in index order; stops when f
// returns false.
template <class F>
bool for_bands(const RowLayout& layout, std::uint64_t base, F&& f) {
  const RowGeometry& r = layout.rows;
  Band band{base, r.length, r.stride, 0, 0};
  std::uint64_t rest = r.slabs * r.length;  // runs
  if (layout.tiles && r.length == 1) {
    band.stride = 1;
    band.runs = kEdge * kEdge;
    rest = r.stride;
  } else if (layout.tiles) {
    band.runs = kEdge;
    band.shift = tile_shift(r.stride);
    rest = r.length;
  }
  if (band.stride > 1) band.inverse = ~std::uint64_t{0} / band.stride + 1;
  for (; rest > 0; rest -= band.runs, band.start += band.size()) {
    band.runs = std::min(band.runs, rest);
    if (!f(band)) return false;
  }
  return true;
}

// Positions of a band whose groups have k entries each, in order of the groups.
bool positions_of(const Band& band, std::uint64_t k,
                  std::span<const std::uint32_t> indices, std::uint32_t* counts,
                  std::uint32_t* positions) {
  const std::uint64_t mask = (std::uint64_t{1} << band.shift) - 1;
  const std::uint64_t groups = band.groups();
  // All groups but the last are equally wide, so the k of each follow each
  // other.
  k = std::min(k, band.runs * band.width(0));
  std::fill(counts, counts + groups, 0U);
  for (const std::uint32_t index : indices) {
    const std::uint64_t offset = index - band.start;
    if (offset >= band.size()) return false;
    const std::uint64_t run = band.run_of(offset);
    const std::uint64_t column = offset - run * band.stride;
    const std::uint64_t g = column >> band.shift;
    if (counts[g] == k || g * k + counts[g] >= indices.size()) return false;
    positions[g * k + counts[g]++] =
        static_cast<std::uint32_t>(run << band.shift | (column & mask));
  }
  for (std::uint64_t g = 0; g < groups; ++g) {
    if (counts[g] != std::min(k, band.runs * band.width(g))) return false;
  }
  return true;
}

std::uint64_t band_entries(const Band& band, std::uint64_t k) {
  const std::uint64_t groups = band.groups();
  return (groups - 1) * std::min(k, band.runs * band.width(0)) +
         std::min(k, band.runs * band.width(groups - 1));
}

// Sorts by marking: a bit per element, and one per word of those.
class Marks {
 public:
  // Beyond this, marks take more memory than they are worth.
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 26;

  Marks(std::uint64_t* zeroed, std::uint64_t size)
      : words_(zeroed), index_(zeroed + words_for(size)), size_(size) {}
  static std::size_t words(std::uint64_t size) {
    return words_for(size) + words_for(words_for(size));
  }

  void set(std::uint64_t offset) {
    words_[offset / 64] |= std::uint64_t{1} << (offset % 64);
    index_[offset / 4096] |= std::uint64_t{1} << (offset / 64 % 64);
  }
  // Writes `start` plus each mark and clears it; returns how many.
  std::size_t take(std::uint64_t start, std::uint32_t* out) {
    std::size_t i = 0;
    for (std::uint64_t top = 0; 4096 * top < size_; ++top) {
      for (std::uint64_t some = index_[top]; some != 0; some &= some - 1) {
        const std::uint64_t at = 64 * top + ctz(some);
        for (std::uint64_t word = words_[at]; word != 0; word &= word - 1) {
          out[i++] = static_cast<std::uint32_t>(start + 64 * at + ctz(word));
        }
        words_[at] = 0;
      }
      index_[top] = 0;
    }
    return i;
  }

 private:
  static std::uint64_t ctz(std::uint64_t word) {
    return static_cast<std::uint64_t>(__builtin_ctzll(word));
  }

  std::uint64_t* words_;
  std::uint64_t* index_;
  std::uint64_t size_;
};

// Turns the positions of a band into indices; false if one has no place.
bool indices_of(const Band& band, std::uint64_t k,
                const std::uint32_t* positions,
                std::span<std::uint32_t> indices) {
  const std::uint64_t mask = (std::uint64_t{1} << band.shift) - 1;
  std::size_t at = 0;
  bool bad = false;
  for (std::uint64_t g = 0; at < indices.size(); ++g) {
    const std::uint64_t width = band.width(g);
    const std::uint64_t count = std::min(k, band.runs * width);
    for (const std::size_t last = at + count; at < last; ++at) {
      const std::uint64_t run = positions[at] >> band.shift;
      const std::uint64_t column = positions[at] & mask;
      bad = bad || run >= band.runs || column >= width;
      indices[at] = static_cast<std::uint32_t>(band.start + run * band.stride +
                                               (g << band.shift) + column);
    }
  }
  return !bad;
}

// Puts a band's indices in order. Those that stand twice are left for the
// check of the order.
void sort_band(const Band& band, RowScratch& scratch,
               std::span<std::uint32_t> indices) {
  if (band.groups() == 1) return;
  if (band.size() > Marks::kMost) {
    std::sort(indices.begin(), indices.end());
    return;
  }
  Marks marks(scratch.marks.data(), band.size());
  for (const std::uint32_t index : indices) marks.set(index - band.start);
  const std::size_t found = marks.take(band.start, indices.data());
  if (found < indices.size()) indices[found] = 0;
}

// Room for marks, all of them zero.
void prepare_marks(RowScratch& scratch, std::span<const SegmentForm> segments) {
  std::uint64_t most = 0;
  for (const SegmentForm& s : segments) {
    const RowGeometry& r = s.rows.rows;
    const bool tiles = s.rows.tiles;
    if (r.k == 0 || (tiles && r.length == 1)) continue;  // in order already
    const std::uint64_t size =
        (tiles ? std::min<std::uint64_t>(r.length, kEdge) : r.length) *
        r.stride;
    if (size <= Marks::kMost) most = std::max(most, size);
  }
  scratch.marks.grow(Marks::words(most));
}

WireError read_segment(const WireKernels& kernels, RowScratch& scratch,
                       const SegmentForm& segment, const Reader& bits,
                       std::uint64_t& at, std::uint64_t base,
                       std::span<std::uint32_t> indices) {
  const unsigned width = row_bits(segment.rows);
  const std::uint64_t k = segment.rows.rows.k;
  std::uint32_t* positions = scratch.positions.grow(indices.size());
  kernels.unpack(bits.at, bits.end, at, indices.size(), width, positions);
  at += indices.size() * width;
  std::size_t done = 0;
  const bool fine = for_bands(segment.rows, base, [&](const Band& band) {
    const auto here = indices.subspan(done, band_entries(band, k));
    if (!indices_of(band, k, positions + done, here)) return false;
    sort_band(band, scratch, here);
    done += here.size();
    return true;
  });
  return fine ? WireError::kNone : WireError::kIndexRange;
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

bool write_rows(const WireKernels& kernels, RowScratch& scratch,
                std::span<const SegmentForm> segments, Range range,
                std::span<const std::uint32_t> indices, std::byte* out) {
  BitWriter writer(out);
  std::uint64_t base = range.base;
  for (const SegmentForm& segment : segments) {
    const std::size_t count = row_entries(segment);
    const auto mine = indices.first(count);
    const std::uint64_t k = segment.rows.rows.k;
    std::uint32_t* positions = scratch.positions.grow(count);
    std::size_t done = 0;
    const bool fits =
        count == 0 || for_bands(segment.rows, base, [&](const Band& band) {
          std::uint32_t* counts = scratch.counts.grow(band.groups());
          const auto here = mine.subspan(done, band_entries(band, k));
          done += here.size();
          return positions_of(band, k, here, counts,
                              positions + done - here.size());
        });
    if (!fits) return false;
    if (count > 0) {
      kernels.pack(positions, count, 0, row_bits(segment.rows), writer);
    }
    indices = indices.subspan(count);
    base += segment.size;
  }
  writer.finish();
  return true;
}

WireError read_rows(const WireKernels& kernels, RowScratch& scratch,
                    std::span<const SegmentForm> segments, Reader& in,
                    Range range, std::span<std::uint32_t> indices) {
  std::uint64_t bits = 0;
  std::uint64_t entries = 0;
  for (const SegmentForm& segment : segments) {
    const std::uint64_t count = row_entries(segment);
    if (count > indices.size() - entries) return WireError::kIndexSection;
    entries += count;
    if (count > 0) bits += count * row_bits(segment.rows);
  }
  const std::size_t bytes = 8 * words_for(bits);
  if (entries != indices.size() || bytes > in.left()) {
    return WireError::kIndexSection;
  }
  prepare_marks(scratch, segments);
  std::uint64_t at = 0;
  std::uint64_t base = range.base;
  for (const SegmentForm& segment : segments) {
    const std::size_t count = row_entries(segment);
    if (count > 0) {
      const WireError error = read_segment(kernels, scratch, segment, in, at,
                                           base, indices.first(count));
      if (error != WireError::kNone) return error;
    }
    indices = indices.subspan(count);
    base += segment.size;
  }
  in.at += bytes;
  return WireError::kNone;
}

}  // namespace sluice::cpu::wire
