#pragma once

#include <string>

#include "sluice/weights/weights.h"

namespace sluice {

// A state_dict as torch.save writes it since torch 1.6: a zip file with a
// pickle and storages. Tensors with any strides come out row after row. A dict
// within the dict ("state_dict", "model") is found, and said in the notes, as
// is what was passed over. Nothing of the file is ever executed. Throws
// std::runtime_error for what is damaged or is no state_dict.
Weights read_torch_file(const std::string& path);

}  // namespace sluice
