#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/cpu/scratch.h"
#include "sluice/backend/cpu/wire_kernels.h"
#include "sluice/backend/pass.h"
#include "sluice/backend/wire_shape.h"
#include "sluice/core/wire.h"

// The sections of a message.

namespace sluice::cpu::wire {

// Elements of a bucket.
struct Range {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
};

// What is left of a message.
struct Reader {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;

  std::size_t left() const { return static_cast<std::size_t>(end - at); }
};

// The form with the fewest bytes, rows apart. Bit-packing is only measured
// where a sample of its blocks says that it may win.
IndexForm smallest_form(const WireKernels& kernels,
                        std::span<const std::uint32_t> indices, Range range);

// Bytes of the section; kCannot if the form cannot carry these indices.
std::size_t index_bytes(const WireKernels& kernels, IndexForm form,
                        std::span<const std::uint32_t> indices, Range range);

// Writes so many bytes.
void write_indices(const WireKernels& kernels, IndexForm form,
                   std::span<const std::uint32_t> indices, Range range,
                   std::byte* out);

// Fills `indices` and moves `in` behind the section. Checks what the form
// itself could get wrong; that the result ascends inside the range is for the
// caller to check.
WireError read_indices(const WireKernels& kernels, IndexForm form, Reader& in,
                       Range range, std::span<std::uint32_t> indices);

// Positions inside rows and tiles. The row is implied by the order, so an entry
// takes ceil(log2 length) bits whatever the density.

struct RowScratch {
  Scratch<std::uint32_t> positions;
  Scratch<std::uint32_t> counts;  // of each row of a slab, or of each column
};

// Writes the positions of `indices`, which are row_entries() many for each of
// the segments. False if they are not k per row.
bool write_rows(const WireKernels& kernels, RowScratch& scratch,
                std::span<const SegmentForm> segments, Range range,
                std::span<const std::uint32_t> indices, std::byte* out);

// The indices back; as read_indices().
WireError read_rows(const WireKernels& kernels, RowScratch& scratch,
                    std::span<const SegmentForm> segments, Reader& in,
                    Range range, std::span<std::uint32_t> indices);

// Writes value_bytes() bytes. `starts` are of the part's segments, and one
// more; `values` is where the first entry of the message stands. False if a
// table form cannot carry the values.
bool write_values(const WireKernels& kernels, ValueForm form,
                  const float* values, std::span<const std::uint64_t> starts,
                  std::byte* out);

// The values back, and `in` behind the section.
WireError read_values(const WireKernels& kernels, ValueForm form, Reader& in,
                      std::span<const std::uint64_t> starts, float* values);

}  // namespace sluice::cpu::wire
