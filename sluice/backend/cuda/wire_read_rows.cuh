#pragma once

#include "sluice/backend/cuda/wire_marks.cuh"
#include "sluice/backend/cuda/wire_read.cuh"

// Entries that went by rows or tiles.

namespace sluice::cuda {

// Entry i of a part by rows.
struct RowEntry {
  std::uint32_t segment = 0;
  std::uint64_t e = 0;  // its number in the segment
  RowPlace place;
  std::uint64_t position = 0;
};

__device__ inline std::uint64_t position_of(const DecodeArgs& a,
                                            const ReadPart& part,
                                            const WireSegment& segment,
                                            std::uint64_t e) {
  const std::uint64_t at = segment.bits_before -
                           a.segments[part.first].bits_before +
                           e * segment.bits;
  return bits_at(a.at<std::uint32_t>(part.at), at, segment.bits);
}

__device__ inline RowEntry row_entry(const DecodeArgs& a, const ReadPart& part,
                                     std::uint64_t i) {
  const std::uint64_t number = a.segments[part.first].entries_before + i;
  RowEntry out;
  out.segment =
      part.first +
      last_at_most(a.segments + part.first, part.last - part.first, number,
                   [](const WireSegment& s) { return s.entries_before; });
  const WireSegment& segment = a.segments[out.segment];
  out.e = number - segment.entries_before;
  out.place = place_of(segment, out.e);
  out.position = position_of(a, part, segment, out.e);
  return out;
}

// Whether the CPU sorts the band by its elements, so that two that are equal
// are seen at once.
__device__ inline bool is_small(const WireSegment& s, const RowPlace& place) {
  return place.band_entries <= 128 &&
         place.runs * s.bands.stride < std::uint64_t{1} << 15;
}

// Offset of the entry in its segment; kCannot, and a failure, if its position
// has no place there.
__device__ inline std::uint64_t offset_of(const DecodeArgs& a, std::uint32_t p,
                                          std::uint64_t i,
                                          const RowEntry& entry) {
  const RowBands& b = a.segments[entry.segment].bands;
  const std::uint64_t run = entry.position >> b.shift;
  const std::uint64_t mask = (std::uint64_t{1} << b.shift) - 1;
  const std::uint64_t column = entry.position & mask;
  const bool last = entry.place.group + 1 == b.groups;
  if (run >= entry.place.runs ||
      (b.shift > 0 && last && column >= b.last_width)) {
    const std::uint64_t band = i - entry.e + entry.place.band;
    fail(a, failure(p, Stage::kIndices, WireError::kIndexRange, band));
    return kCannot;
  }
  return entry.place.start + run * b.stride + (entry.place.group << b.shift) +
         column;
}

// Marks an entry of interleaved rows or tiles. Twice the same is a failure.
__device__ inline void mark_entry(const DecodeArgs& a, std::uint32_t p,
                                  const ReadPart& part, std::uint64_t i) {
  const RowEntry entry = row_entry(a, part, i);
  const WireSegment& segment = a.segments[entry.segment];
  if (!segment.strided) return;
  const std::uint64_t offset = offset_of(a, p, i, entry);
  if (offset == kCannot) return;
  const std::uint32_t bit = 1U << (offset % 32);
  const std::uint32_t old =
      atomicOr(a.marks + segment.marks + offset / 32, bit);
  const bool small = is_small(segment, entry.place);
  if ((old & bit) != 0) {
    const std::uint64_t band = i - entry.e + entry.place.band;
    fail(a,
         small ? failure(p, Stage::kIndices, WireError::kIndexOrder, band, true)
               : failure(p, Stage::kOrder, WireError::kIndexOrder));
  }
  if (small || segment.bands.shift == 0) return;
  // Tiles that do not ascend are looked at again.
  const bool first = entry.e == entry.place.band ||
                     place_of(segment, entry.e - 1).group != entry.place.group;
  if (!first && position_of(a, part, segment, entry.e - 1) >= entry.position) {
    atomicOr(&a.head->unsorted, 1U);
  }
}

// The CPU keeps the order that the entries of a tile's line came in: there they
// must ascend, whatever the order of the lines.
__device__ inline void check_tile(const DecodeArgs& a, std::uint32_t p,
                                  const ReadPart& part, std::uint64_t i) {
  const RowEntry entry = row_entry(a, part, i);
  const WireSegment& segment = a.segments[entry.segment];
  const unsigned shift = segment.bands.shift;
  if (!segment.strided || shift == 0 || is_small(segment, entry.place)) return;
  for (std::uint64_t e = entry.e; e-- > entry.place.band;) {
    if (place_of(segment, e).group != entry.place.group) return;
    const std::uint64_t other = position_of(a, part, segment, e);
    if (other >> shift == entry.position >> shift && other >= entry.position) {
      fail(a, failure(p, Stage::kOrder, WireError::kIndexOrder));
      return;
    }
  }
}

// The rows of a chunk that are not interleaved.
__device__ inline void read_rows(const DecodeArgs& a, std::uint32_t p,
                                 const ReadPart& part, std::uint64_t c) {
  const std::uint64_t begin = (c - part.chunk) * kDirectChunk;
  const std::uint64_t end = min_of(begin + kDirectChunk, part.count);
  const bool unsorted = a.head->unsorted != 0;
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    if (unsorted) check_tile(a, p, part, i);
    const RowEntry entry = row_entry(a, part, i);
    const WireSegment& segment = a.segments[entry.segment];
    if (segment.strided) continue;
    const std::uint64_t offset = offset_of(a, p, i, entry);
    if (offset == kCannot) continue;
    put_entry(a, p, part, i, static_cast<std::uint32_t>(segment.base + offset));
  }
}

__device__ inline void mark_rows(const DecodeArgs& a, std::uint64_t c) {
  const std::uint32_t p = part_of_chunk(a, c);
  const ReadPart& part = a.parts[p];
  if (part.index_form != IndexForm::kRows) return;
  const std::uint64_t begin = (c - part.chunk) * kDirectChunk;
  const std::uint64_t end = min_of(begin + kDirectChunk, part.count);
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    mark_entry(a, p, part, i);
  }
}

// The marked entries, in order.
__device__ inline void read_marks(const DecodeArgs& a) {
  for (std::uint64_t c = blockIdx.x; c < a.mark_chunks; c += gridDim.x) {
    const std::uint32_t s = segment_of_chunk(a.segments, a.count, c);
    const WireSegment& segment = a.segments[s];
    // Without parts there are no marks either.
    const std::uint32_t p =
        a.head->parts == 0
            ? 0
            : last_at_most(a.parts, a.head->parts, s,
                           [](const ReadPart& part) { return part.first; });
    const ReadPart& part = a.parts[p];
    const std::uint64_t before =
        segment.entries_before - a.segments[part.first].entries_before;
    for_marks(a.marks, a.mark_counts, segment.chunks, c,
              [&](std::uint64_t rank, std::uint64_t bit) {
                put_entry(a, p, part, before + rank,
                          static_cast<std::uint32_t>(segment.base + bit));
              });
  }
}

}  // namespace sluice::cuda
