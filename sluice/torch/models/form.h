#pragma once

#include <string>
#include <vector>

#include "sluice/data/input.h"

namespace sluice {

// Networks that were made for ImageNet have a second form for small images; a
// parameter `form` chooses.
inline const std::vector<std::string> kForms = {"auto", "imagenet", "cifar"};

// Whether the choice is the ImageNet form; `auto` takes it for images of 64
// pixels or more in height or width.
inline bool is_imagenet_form(const std::string& choice, const Input& input) {
  if (choice != "auto") return choice == "imagenet";
  return input.height >= 64 || input.width >= 64;
}

}  // namespace sluice
