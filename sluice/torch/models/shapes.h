#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "sluice/data/input.h"

// What models have in common about the shapes of images and layers.

namespace sluice {

// Networks that were made for ImageNet have a second form for small images; a
// parameter `form` chooses.
inline const std::vector<std::string> kForms = {"auto", "imagenet", "cifar"};

// Whether the choice is the ImageNet form; `auto` takes it for images of 64
// pixels or more in height or width.
inline bool is_imagenet_form(const std::string& choice,
                             const ImageInput& input) {
  if (choice != "auto") return choice == "imagenet";
  return input.height >= 64 || input.width >= 64;
}

// What to pad each side of images by for a model that takes 32 x 32. Throws
// std::invalid_argument unless they are 28 x 28 or 32 x 32.
std::int64_t padding_to_32(std::string_view model, const ImageInput& input);

// Zeros all around, which is the mean of normalised images.
inline torch::Tensor pad(const torch::Tensor& images, std::int64_t by) {
  return by == 0 ? images : torch::constant_pad_nd(images, {by, by, by, by}, 0);
}

// The widths of layers in a parameter of that name, "1024-512"; none if it is
// empty. Throws std::invalid_argument, naming the model, unless they are whole
// numbers from 1 to 1000000.
std::vector<std::int64_t> parse_widths(std::string_view model,
                                       std::string_view text);

}  // namespace sluice
