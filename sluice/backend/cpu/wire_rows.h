#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/cpu/scratch.h"
#include "sluice/backend/cpu/wire_index.h"
#include "sluice/backend/pass.h"

// Positions inside rows and tiles. The row is implied by the order, so an entry
// takes ceil(log2 length) bits whatever the density.

namespace sluice::cpu::wire {

struct RowScratch {
  Scratch<std::uint32_t> positions;
  Scratch<std::uint32_t> counts;  // of each row of a slab, or of each column
};

// Entries that the segment has if it goes by rows: 0 if it has no rows, kCannot
// if its layout does not cover it.
std::uint64_t row_entries(const SegmentForm& segment);

// Bits of one of its positions.
unsigned row_bits(const RowLayout& layout);

// Writes the positions of `indices`, which are row_entries() many for each of
// the segments. False if they are not k per row.
bool write_rows(const WireKernels& kernels, RowScratch& scratch,
                std::span<const SegmentForm> segments, Range range,
                std::span<const std::uint32_t> indices, std::byte* out);

// The indices back; as read_indices().
WireError read_rows(const WireKernels& kernels, RowScratch& scratch,
                    std::span<const SegmentForm> segments, Reader& in,
                    Range range, std::span<std::uint32_t> indices);

}  // namespace sluice::cpu::wire
