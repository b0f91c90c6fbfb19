#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/pass.h"
#include "sluice/core/wire.h"

// Messages of sparse entries in host memory; see core/wire.h for the format.
// Index is std::uint32_t or std::uint64_t.

namespace sluice::cpu::wire {

template <class Index>
struct Entries {
  std::span<Index> indices;  // ascending, below the dense size
  std::span<const float> values;
  std::span<const std::uint64_t> starts;  // of segments; {0, count} for one
  std::span<const RowLayout> rows;        // one per segment, or empty
};

// The index form that takes the fewest bytes.
template <class Index>
IndexForm smallest_form(const Entries<const Index>& entries, std::uint64_t n);

// Bytes of the index section; 0 bytes may be valid. SIZE_MAX if the form cannot
// carry these indices.
template <class Index>
std::size_t index_bytes(const Entries<const Index>& entries, std::uint64_t n,
                        IndexForm form);

// Bytes of the value section.
std::size_t value_bytes(std::uint64_t count, std::uint64_t segments,
                        ValueForm form);

// Writes a message; returns its size, or 0 if it does not fit `out`, the index
// form cannot carry the indices, or a table form the values. 16-bit forms round
// what was not rounded before.
template <class Index>
std::size_t encode(const Entries<const Index>& entries, std::uint64_t n,
                   IndexForm index_form, ValueForm value_form,
                   std::span<std::byte> out);

// Reads a message of at most indices.size() entries below n.
template <class Index>
DecodeResult decode(std::span<const std::byte> in, std::uint64_t n,
                    std::span<Index> indices, std::span<float> values);

// See core/checksum.h.
std::uint32_t checksum(std::span<const std::byte> header_without_it,
                       std::span<const std::byte> payload);

}  // namespace sluice::cpu::wire
