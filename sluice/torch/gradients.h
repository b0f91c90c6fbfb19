#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sluice/backend/memory.h"
#include "sluice/core/view.h"
#include "sluice/sparsify/exceptions.h"

// Tensors of torch as a GradientSync sees them. Needs few of torch's headers.

namespace sluice {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

// A tensor's own memory, whatever its strides. Throws std::invalid_argument for
// types other than fp32, bf16 and fp16, and for more than kMaxDims dimensions.
TensorView view_of(const at::Tensor& tensor);

// When what torch has enqueued so far has made the tensor.
Event event_after(const at::Tensor& tensor);

// What the sync must know of parameters. Throws std::invalid_argument,
// beginning with "[`owner`]", for those that it cannot take.
std::vector<TensorInfo> describe_tensors(std::string_view owner,
                                         const NamedTensors& parameters);

}  // namespace sluice
