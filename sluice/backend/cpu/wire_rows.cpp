// Positions inside rows and tiles. The row is implied by the order, so an entry
// takes ceil(log2 length) bits whatever the density.

#include <algorithm>
#include <bit>
#include <vector>

#include "sluice/backend/cpu/bits.h"
#include "sluice/backend/cpu/wire_index.h"

namespace sluice::cpu::wire {
namespace {

constexpr std::uint64_t kEdge = RowGeometry::kTileEdge;
constexpr std::uint64_t kTilesFlag = std::uint64_t{1} << 63;
constexpr std::uint64_t kLayoutWords = 4;
constexpr std::uint64_t kLimit = std::uint64_t{1} << 48;

// A run of groups that share a stretch of indices; see Slab in rows.cpp.
struct Band {
  std::uint64_t start = 0;  // index of its first element
  std::uint64_t runs = 0;
  std::uint64_t stride = 1;
  unsigned shift = 0;

  std::uint64_t groups() const {
    return (stride + (std::uint64_t{1} << shift) - 1) >> shift;
  }
  std::uint64_t width(std::uint64_t group) const {
    return std::min(std::uint64_t{1} << shift, stride - (group << shift));
  }
  std::uint64_t group_size(std::uint64_t group) const {
    return runs * width(group);
  }
  // Where a position of a group stands; false if there is no such place.
  bool offset_of(std::uint64_t group, std::uint64_t position,
                 std::uint64_t& offset) const {
    const std::uint64_t run = position >> shift;
    const std::uint64_t column = position & ((std::uint64_t{1} << shift) - 1);
    if (run >= runs || column >= width(group)) return false;
    offset = run * stride + (group << shift) + column;
    return true;
  }
};

// a / b; in 32 bits, which divide several times as fast, where they will do.
std::uint64_t quotient(std::uint64_t a, std::uint64_t b) {
  if ((a | b) >> 32 == 0) {
    return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  }
  return a / b;
}

std::uint64_t size_of(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  return (layout.tiles ? 1 : r.slabs) * r.length * r.stride;
}

// Numbers that anyone may have sent must not overflow.
bool plausible(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  std::uint64_t size = 0;
  return r.k > 0 && r.k <= kLimit && r.length > 0 && r.stride > 0 &&
         r.slabs > 0 && !__builtin_mul_overflow(r.slabs, r.length, &size) &&
         !__builtin_mul_overflow(size, r.stride, &size) && size <= kLimit;
}

unsigned position_bits(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  const std::uint64_t positions =
      !layout.tiles   ? r.length
      : r.length == 1 ? std::min<std::uint64_t>(r.stride, kEdge * kEdge)
                      : std::min<std::uint64_t>(r.length, kEdge) * kEdge;
  return static_cast<unsigned>(std::bit_width(positions - 1));
}

// Calls f(band) for every band of the layout, in index order; stops when f
// returns false.
template <class F>
bool for_bands(const RowLayout& layout, std::uint64_t base, F&& f) {
  const RowGeometry& r = layout.rows;
  if (layout.tiles && r.length == 1) {
    for (std::uint64_t at = 0; at < r.stride; at += kEdge * kEdge) {
      if (!f(Band{base + at, std::min(r.stride - at, kEdge * kEdge), 1, 0})) {
        return false;
      }
    }
    return true;
  }
  if (layout.tiles) {
    for (std::uint64_t row = 0; row < r.length; row += kEdge) {
      if (!f(Band{base + row * r.stride, std::min(kEdge, r.length - row),
                  r.stride, 6})) {
        return false;
      }
    }
    return true;
  }
  for (std::uint64_t slab = 0; slab < r.slabs; ++slab) {
    if (!f(Band{base + slab * r.length * r.stride, r.length, r.stride, 0})) {
      return false;
    }
  }
  return true;
}

// Entries that the layout holds, in closed form: a hostile one may claim 2^48
// bands, which nobody should walk before the count is known to be true.
std::uint64_t entries_of(const RowLayout& layout) {
  const RowGeometry& r = layout.rows;
  const auto tiles_along = [&](std::uint64_t extent, std::uint64_t height,
                               std::uint64_t edge) {
    const std::uint64_t rest = extent % edge;
    return extent / edge * std::min<std::uint64_t>(r.k, height * edge) +
           (rest > 0 ? std::min<std::uint64_t>(r.k, height * rest) : 0);
  };
  if (!layout.tiles) {
    return r.slabs * r.stride * std::min<std::uint64_t>(r.k, r.length);
  }
  if (r.length == 1) return tiles_along(r.stride, 1, kEdge * kEdge);
  const std::uint64_t rest = r.length % kEdge;
  return r.length / kEdge * tiles_along(r.stride, kEdge, kEdge) +
         (rest > 0 ? tiles_along(r.stride, rest, kEdge) : 0);
}

template <class Index>
bool write_band(const Band& band, std::uint64_t k, unsigned bits,
                std::span<const Index> indices, std::size_t& at,
                std::vector<std::uint64_t>& positions,
                std::vector<std::uint64_t>& counts, BitWriter& writer) {
  const std::uint64_t end = band.start + band.runs * band.stride;
  if (band.stride == 1) {
    // One row: its entries stand in the order in which they are written.
    k = std::min(k, band.runs);
    if (indices.size() - at < k) return false;
    for (std::uint64_t i = 0; i < k; ++i, ++at) {
      if (indices[at] >= end) return false;
      writer.put(indices[at] - band.start, bits);
    }
    return at == indices.size() || indices[at] >= end;
  }
  const std::uint64_t groups = band.groups();
  k = std::min(k, band.group_size(0));  // the first group is a largest one
  positions.assign(groups * k, 0);
  counts.assign(groups, 0);
  for (; at < indices.size() && indices[at] < end; ++at) {
    const std::uint64_t offset = indices[at] - band.start;
    const std::uint64_t run = quotient(offset, band.stride);
    const std::uint64_t column = offset - run * band.stride;
    const std::uint64_t g = column >> band.shift;
    if (counts[g] == k) return false;
    positions[g * k + counts[g]++] =
        run << band.shift | (column & ((std::uint64_t{1} << band.shift) - 1));
  }
  for (std::uint64_t g = 0; g < groups; ++g) {
    if (counts[g] != std::min(k, band.group_size(g))) return false;
    for (std::uint64_t i = 0; i < counts[g]; ++i) {
      writer.put(positions[g * k + i], bits);
    }
  }
  return true;
}

// A band holds a few entries per row, each row's in order: insertion is faster
// than a general sort up to a few dozen.
template <class Index>
void sort_few(std::span<Index> list) {
  constexpr std::size_t kFew = 64;
  if (list.size() > kFew) {
    std::sort(list.begin(), list.end());
    return;
  }
  for (std::size_t i = 1; i < list.size(); ++i) {
    const Index value = list[i];
    std::size_t at = i;
    for (; at > 0 && list[at - 1] > value; --at) list[at] = list[at - 1];
    list[at] = value;
  }
}

template <class Index>
WireError read_band(const Band& band, std::uint64_t k, unsigned bits,
                    std::span<Index> indices, std::size_t& at,
                    BitReader& reader) {
  const std::size_t first = at;
  for (std::uint64_t g = 0; g < band.groups(); ++g) {
    for (std::uint64_t i = 0; i < std::min(k, band.group_size(g)); ++i) {
      std::uint64_t offset = 0;
      if (!band.offset_of(g, reader.get(bits), offset)) {
        return WireError::kIndexRange;
      }
      indices[at++] = static_cast<Index>(band.start + offset);
    }
  }
  if (band.groups() > 1) sort_few(indices.subspan(first, at - first));
  return WireError::kNone;
}

}  // namespace

std::size_t row_bytes(std::span<const RowLayout> rows, std::uint64_t n,
                      std::uint64_t count) {
  if (rows.empty()) return kCannot;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
  std::uint64_t bits = 0;
  for (const RowLayout& layout : rows) {
    // Checked one by one: a hostile sum of many would wrap round.
    if (!plausible(layout) || size_of(layout) > n - size ||
        entries_of(layout) > count - entries) {
      return kCannot;
    }
    size += size_of(layout);
    entries += entries_of(layout);
    bits += entries_of(layout) * position_bits(layout);
  }
  if (size != n || entries != count) return kCannot;
  return 8 * (1 + rows.size() * kLayoutWords + words_for(bits));
}

template <class Index>
bool write_rows(const Entries<const Index>& entries, std::byte* out) {
  store_word(out, 0, entries.rows.size());
  out += 8;
  for (const RowLayout& layout : entries.rows) {
    const RowGeometry& r = layout.rows;
    store_word(out, 0, r.slabs | (layout.tiles ? kTilesFlag : 0));
    store_word(out, 1, r.length);
    store_word(out, 2, r.stride);
    store_word(out, 3, r.k);
    out += 8 * kLayoutWords;
  }
  BitWriter writer(out);
  // Kept between messages: steady state allocates nothing.
  thread_local std::vector<std::uint64_t> positions;
  thread_local std::vector<std::uint64_t> counts;
  std::uint64_t base = 0;
  std::size_t at = 0;
  for (const RowLayout& layout : entries.rows) {
    const unsigned bits = position_bits(layout);
    const bool fits = for_bands(layout, base, [&](const Band& band) {
      return write_band(band, layout.rows.k, bits, entries.indices, at,
                        positions, counts, writer);
    });
    if (!fits) return false;
    base += size_of(layout);
  }
  writer.finish();
  return at == entries.indices.size();
}

template <class Index>
WireError read_rows(std::span<const std::byte> in, std::uint64_t n,
                    std::span<Index> indices) {
  if (in.size() < 8) return WireError::kIndexSection;
  const std::uint64_t segments = load_word(in.data(), 0);
  if (segments == 0 || segments > (in.size() / 8 - 1) / kLayoutWords) {
    return WireError::kIndexSection;
  }
  thread_local std::vector<RowLayout> rows;
  rows.resize(segments);
  for (std::size_t s = 0; s < segments; ++s) {
    const std::byte* words = in.data() + 8 * (1 + s * kLayoutWords);
    const std::uint64_t slabs = load_word(words, 0);
    rows[s].tiles = (slabs & kTilesFlag) != 0;
    rows[s].rows = {slabs & ~kTilesFlag, load_word(words, 1),
                    load_word(words, 2), load_word(words, 3)};
    if (!plausible(rows[s])) return WireError::kIndexSection;
  }
  if (row_bytes(rows, n, indices.size()) != in.size()) {
    return WireError::kIndexSection;
  }
  BitReader reader(in.data() + 8 * (1 + segments * kLayoutWords));
  std::uint64_t base = 0;
  std::size_t at = 0;
  WireError error = WireError::kNone;
  for (const RowLayout& layout : rows) {
    const unsigned bits = position_bits(layout);
    const bool fine = for_bands(layout, base, [&](const Band& band) {
      error = read_band(band, layout.rows.k, bits, indices, at, reader);
      return error == WireError::kNone;
    });
    if (!fine) return error;
    base += size_of(layout);
  }
  return WireError::kNone;
}

#define SLUICE_INSTANTIATE(Index)                                         \
  template bool write_rows(const Entries<const Index>&, std::byte*);      \
  template WireError read_rows(std::span<const std::byte>, std::uint64_t, \
                               std::span<Index>);
SLUICE_INSTANTIATE(std::uint32_t)
SLUICE_INSTANTIATE(std::uint64_t)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::cpu::wire
