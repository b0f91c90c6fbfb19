#pragma once

#include <vector>

#include "sluice/torch/tensors.h"

// Norms of gradients, and what keeps them below a limit.
//
// For gradients in host memory a sum of squares runs in one order whatever the
// number of threads, so ranks with equal gradients get equal bits. What ends in
// "on_device" does not wait for a norm. All functions that clip throw
// std::invalid_argument unless `most` is above 0.

namespace sluice {

// The L2 norm of all gradients together, and that of one tensor.
double gradient_norm(const NamedTensors& parameters);
double tensor_norm(const torch::Tensor& tensor);

// Scales all gradients so that their norm is `most` if it is above; returns the
// norm they had. A norm that is not finite scales nothing.
double clip_gradients(const NamedTensors& parameters, double most);
void clip_on_device(const NamedTensors& parameters, double most);

// Scales each gradient by itself so that its norm is `most` if it is above;
// returns the largest norm they had. A gradient whose norm is not finite stays
// as it is, and so is the result then.
double clip_tensors(const NamedTensors& parameters, double most);
void clip_tensors_on_device(const NamedTensors& parameters, double most);

// The same for gradients without their parameters.
double clip_each(const std::vector<torch::Tensor>& gradients, double most);
void clip_each_on_device(const std::vector<torch::Tensor>& gradients,
                         double most);

// One float on the gradients' device: 0 if all of them are finite, else 1.
torch::Tensor find_nonfinite(const NamedTensors& parameters);

// The gradients that there are.
std::vector<torch::Tensor> gradients_of(const NamedTensors& parameters);

}  // namespace sluice
