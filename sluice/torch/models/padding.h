#pragma once

#include <torch/torch.h>

#include "sluice/core/error.h"
#include "sluice/data/input.h"

namespace sluice {

// What to pad each side of images by for a model that takes 32 x 32. Throws
// std::invalid_argument unless they are 28 x 28 or 32 x 32.
inline std::int64_t padding_to_32(std::string_view model, const Input& input) {
  const bool square = input.height == input.width;
  require(square && (input.height == 28 || input.height == 32), "[model '",
          model, "'] images must be 28 x 28 or 32 x 32, got ", input.height,
          " x ", input.width);
  return (32 - input.height) / 2;
}

// Zeros all around, which is the mean of normalised images.
inline torch::Tensor pad(const torch::Tensor& images, std::int64_t by) {
  return by == 0 ? images : torch::constant_pad_nd(images, {by, by, by, by}, 0);
}

}  // namespace sluice
