#pragma once

#include "sluice/backend/cpu/wire.h"

// The index sections of a message, one form each.

namespace sluice::cpu::wire {

inline constexpr std::size_t kCannot = ~std::size_t{0};

// Writes index_bytes() bytes; false if the indices do not fit the form.
template <class Index>
bool write_indices(const Entries<const Index>& entries, std::uint64_t n,
                   IndexForm form, std::byte* out);

// Fills `indices`. Checks what the form itself could get wrong; the order of
// the result, and that it ends below n, are for the caller to check.
template <class Index>
WireError read_indices(std::span<const std::byte> in, std::uint64_t n,
                       IndexForm form, std::span<Index> indices);

// wire_rows.cpp: positions inside rows and tiles.
std::size_t row_bytes(std::span<const RowLayout> rows, std::uint64_t n,
                      std::uint64_t count);
template <class Index>
bool write_rows(const Entries<const Index>& entries, std::byte* out);
template <class Index>
WireError read_rows(std::span<const std::byte> in, std::uint64_t n,
                    std::span<Index> indices);

}  // namespace sluice::cpu::wire
