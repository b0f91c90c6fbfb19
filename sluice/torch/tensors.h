#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "sluice/run/checkpoint.h"
#include "sluice/torch/gradients.h"

namespace sluice {

// A module's parameters or buffers (the running statistics of normalisation),
// in the order in which they were registered. They share memory with it.
NamedTensors parameters_of(const torch::nn::Module& module);
NamedTensors buffers_of(const torch::nn::Module& module);

// The number of elements of all of them.
std::int64_t count_elements(const NamedTensors& tensors);

// Copies `from` into the tensors of the same names, which must all be there and
// of the same type and shape; `from` may have more. Throws
// std::invalid_argument, beginning with "[`owner`]", before anything is
// copied.
void copy_into(std::string_view owner, const NamedTensors& from,
               const NamedTensors& to);

// The tensor of that name, or an undefined one.
torch::Tensor find_tensor(const NamedTensors& tensors, std::string_view name);

// Tensors on their way to a checkpoint: holds them in host memory, so that
// stored() can point at it. `prefix` is put before every name.
class TensorStore {
 public:
  void add(std::string_view prefix, const NamedTensors& tensors);

  // Valid until the next `add`.
  const std::vector<StoredTensor>& stored() const { return stored_; }

 private:
  std::vector<torch::Tensor> held_;
  std::vector<StoredTensor> stored_;
};

// The tensors of a checkpoint whose names begin with `prefix`, without it;
// copies in host memory, bit for bit.
NamedTensors tensors_of(const Checkpoint& checkpoint, std::string_view prefix);

}  // namespace sluice
