#pragma once

#include <cstddef>
#include <span>

namespace sluice {

// A matrix of `rows` x `columns`, row after row, as its transpose. The two must
// not overlap.
void transpose(std::span<const float> from, std::size_t rows,
               std::size_t columns, std::span<float> to);

}  // namespace sluice
