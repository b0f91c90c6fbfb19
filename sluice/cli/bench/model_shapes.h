#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

using Dims = std::vector<std::size_t>;

// The models whose tensors a bench can select from.
const std::vector<std::string>& known_models();

// The dimensions of a model's tensors, in the order of their layers. Throws if
// it is not known.
std::vector<Dims> model_shapes(const std::string& model);

}  // namespace sluice
