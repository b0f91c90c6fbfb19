#pragma once

#include <cstddef>

#include "sluice/backend/pass.h"

// Tensors of any strides and type as plain floats, and back.

namespace sluice::cpu {

// Elements [begin, end) of the view in the order of their indices.
void read_view(const TensorView& view, std::size_t begin, std::size_t end,
               float* out);
void write_view(const TensorView& view, std::size_t begin, std::size_t end,
                const float* in);

}  // namespace sluice::cpu
