#pragma once

#include <string>
#include <string_view>

#include "sluice/torch/models/model.h"
#include "sluice/torch/tensors.h"

namespace sluice {

// Gives a model the weights of a file or folder, as far as they fit; see
// plan_import. `spec` is how the model was made. Returns what fitted and what
// did not, for people. Throws std::runtime_error if the file is not what it
// should be, or lacks what is not a head.
std::string import_into(Model& model, std::string_view spec,
                        const std::string& path);

// Whose names the tensors of such a model have; see name_maps_of.
std::string weight_kind(std::string_view spec);

// Parameters and running statistics.
NamedTensors weights_of(const Model& model);

}  // namespace sluice
