#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/cpu/wire_kernels.h"
#include "sluice/core/wire.h"

// The index sections of a message, one form each; rows are in wire_rows.h.

namespace sluice::cpu::wire {

inline constexpr std::size_t kCannot = ~std::size_t{0};

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

// Bytes of the smallest form whose size follows from the numbers alone.
std::size_t counted_bytes(std::uint64_t n, std::uint64_t count);

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

}  // namespace sluice::cpu::wire
