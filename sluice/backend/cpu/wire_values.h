#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/cpu/wire_index.h"

// The value sections of a message.

namespace sluice::cpu::wire {

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
