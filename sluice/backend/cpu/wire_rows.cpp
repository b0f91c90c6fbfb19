#include <algorithm>
#include <utility>

#include "sluice/backend/cpu/wire_sections.h"

namespace sluice::cpu::wire {
namespace {

// A run of groups that share a stretch of indices; see Slab in rows.cpp.
struct Band {
  std::uint64_t start = 0;  // index of its first element
  std::uint64_t runs = 0;
  std::uint64_t stride = 1;
  unsigned shift = 0;
  std::uint64_t groups = 1;
  std::uint64_t last_width = 1;  // of the last group; others have 2^shift
  // ceil(2^64 / stride), to divide numbers below 2^32 by it; 0 for 1.
  std::uint64_t inverse = 0;
  std::uint64_t k = 0;       // entries of each group
  std::uint64_t last_k = 0;  // of the last one
  std::size_t entries = 0;   // of all

  std::uint64_t size() const { return runs * stride; }
  std::uint64_t run_of(std::uint64_t offset) const {
    if (inverse == 0) return offset;
    return static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(offset) * inverse >> 64);
  }
  // Whether its entries can be sorted by numbers of 15 bits.
  bool small() const {
    return entries <= WireKernels::kSmall && size() < std::uint64_t{1} << 15;
  }
  void set_runs(std::uint64_t count, std::uint64_t most) {
    runs = count;
    last_k = std::min(most, runs * last_width);
    k = groups == 1 ? last_k : std::min(most, runs << shift);
    entries = (groups - 1) * k + last_k;
  }
};

// Calls f(band) for every band of the layout, in index order; stops when f
// returns false.
template <class F>
bool for_bands(const RowLayout& layout, std::uint64_t base, F&& f) {
  const RowBands shape = bands_of(layout);
  Band band;
  band.start = base;
  band.stride = shape.stride;
  band.shift = shape.shift;
  band.groups = shape.groups;
  band.last_width = shape.last_width;
  if (band.stride > 1) band.inverse = ~std::uint64_t{0} / band.stride + 1;
  std::uint64_t rest = shape.rest;
  for (; rest > 0; rest -= band.runs, band.start += band.size()) {
    const std::uint64_t runs = std::min(shape.runs, rest);
    if (band.runs != runs) band.set_runs(runs, layout.rows.k);
    if (!f(band)) return false;
  }
  return true;
}

// The positions of a band's indices, group by group; false if these do not have
// their k each. Without a branch per entry: a group with too many runs into the
// next one, or into as many slots behind the last.
bool positions_of(const Band& band, const std::uint32_t* indices,
                  std::uint32_t* next, std::uint32_t* positions) {
  const std::uint64_t start = band.start;
  if (band.entries == 0 || indices[0] < start ||
      indices[band.entries - 1] - start >= band.size()) {
    return band.entries == 0;
  }
  if (band.stride == 1) {
    for (std::size_t i = 0; i < band.entries; ++i) {
      positions[i] = indices[i] - static_cast<std::uint32_t>(start);
    }
    return true;
  }
  const std::uint64_t mask = (std::uint64_t{1} << band.shift) - 1;
  for (std::uint64_t g = 0; g < band.groups; ++g) {
    next[g] = static_cast<std::uint32_t>(g * band.k);
  }
  for (std::size_t i = 0; i < band.entries; ++i) {
    const std::uint64_t offset = indices[i] - start;
    const std::uint64_t run = band.run_of(offset);
    const std::uint64_t column = offset - run * band.stride;
    positions[next[column >> band.shift]++] =
        static_cast<std::uint32_t>(run << band.shift | (column & mask));
  }
  bool full = next[band.groups - 1] == band.entries;
  for (std::uint64_t g = 0; g + 1 < band.groups; ++g) {
    full = full && next[g] == (g + 1) * band.k;
  }
  return full;
}

// Calls f(run, column) for the positions of a band, group by group.
template <class F>
void for_places(const Band& band, const std::uint32_t* positions, F&& f) {
  const std::uint32_t mask = (1U << band.shift) - 1;
  std::uint64_t column = 0;
  for (std::uint64_t g = 0; g < band.groups; ++g) {
    const std::uint64_t count = g + 1 < band.groups ? band.k : band.last_k;
    for (std::uint64_t i = 0; i < count; ++i) {
      f(positions[i] >> band.shift, column + (positions[i] & mask));
    }
    positions += count;
    column += std::uint64_t{1} << band.shift;
  }
}

// Whether every position has a place.
bool inside(const WireKernels& kernels, const Band& band,
            const std::uint32_t* positions) {
  if (!kernels.below(positions, band.entries, band.runs << band.shift)) {
    return false;
  }
  if (band.shift == 0) return true;  // groups are one wide
  const std::uint32_t mask = (1U << band.shift) - 1;
  bool narrow = true;
  for (std::size_t i = band.entries - band.last_k; i < band.entries; ++i) {
    narrow = narrow && (positions[i] & mask) < band.last_width;
  }
  return narrow;
}

// Indices in order, from groups that are each in order: by run, and in a run
// the groups come in their order.
void sort_by_run(const Band& band, const std::uint32_t* positions,
                 RowScratch& scratch, std::uint32_t* out) {
  std::uint32_t* ends = scratch.counts.grow(band.runs + 1);
  std::fill(ends, ends + band.runs + 1, 0U);
  for (std::size_t i = 0; i < band.entries; ++i) {
    ++ends[(positions[i] >> band.shift) + 1];
  }
  for (std::uint64_t r = 0; r < band.runs; ++r) ends[r + 1] += ends[r];
  for_places(band, positions, [&](std::uint64_t run, std::uint64_t column) {
    out[ends[run]++] =
        static_cast<std::uint32_t>(band.start + run * band.stride + column);
  });
}

bool sort_small(const WireKernels& kernels, const Band& band,
                const std::uint32_t* positions, std::uint32_t* out) {
  std::uint16_t keys[WireKernels::kSmall];
  std::size_t count = 0;
  for_places(band, positions, [&](std::uint64_t run, std::uint64_t column) {
    keys[count++] = static_cast<std::uint16_t>(run * band.stride + column);
  });
  return kernels.sort_small(keys, count, static_cast<std::uint32_t>(band.start),
                            out);
}

// Reads a band to the front of `out`.
WireError read_band(const WireKernels& kernels, const Band& band,
                    const std::uint32_t* positions, RowScratch& scratch,
                    std::uint32_t* out) {
  if (!inside(kernels, band, positions)) return WireError::kIndexRange;
  bool fine = true;
  if (band.stride == 1) {
    for (std::size_t i = 0; i < band.entries; ++i) {
      out[i] = static_cast<std::uint32_t>(band.start) + positions[i];
    }
  } else if (band.small()) {
    fine = sort_small(kernels, band, positions, out);
  } else {
    sort_by_run(band, positions, scratch, out);
  }
  return fine ? WireError::kNone : WireError::kIndexOrder;
}

WireError read_segment(const WireKernels& kernels, RowScratch& scratch,
                       const SegmentForm& segment, const Reader& bits,
                       std::uint64_t& at, std::uint64_t base,
                       std::span<std::uint32_t> indices) {
  const unsigned width = row_bits(segment.rows);
  std::uint32_t* positions = scratch.positions.grow(indices.size());
  kernels.unpack(bits.at, bits.end, at, indices.size(), width, positions);
  at += indices.size() * width;
  WireError error = WireError::kNone;
  for_bands(segment.rows, base, [&](const Band& band) {
    error = read_band(kernels, band, positions, scratch, indices.data());
    positions += band.entries;
    indices = indices.subspan(band.entries);
    return error == WireError::kNone;
  });
  return error;
}

}  // namespace

bool write_rows(const WireKernels& kernels, RowScratch& scratch,
                std::span<const SegmentForm> segments, Range range,
                std::span<const std::uint32_t> indices, std::byte* out) {
  BitWriter writer(out);
  std::uint64_t base = range.base;
  for (const SegmentForm& segment : segments) {
    const std::size_t count = row_entries(segment);
    // Room for groups with too many; see positions_of().
    std::uint32_t* positions = scratch.positions.grow(2 * count);
    std::size_t done = 0;
    const bool fits =
        count == 0 || for_bands(segment.rows, base, [&](const Band& band) {
          std::uint32_t* next = scratch.counts.grow(band.groups);
          const std::size_t at = std::exchange(done, done + band.entries);
          return positions_of(band, indices.data() + at, next, positions + at);
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
