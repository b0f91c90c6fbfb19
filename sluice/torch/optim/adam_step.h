#pragma once

#include <vector>

#include "sluice/torch/tensors.h"

namespace sluice {

// What moves together; the i-th of all lists belong to one parameter.
struct AdamTensors {
  const std::vector<torch::Tensor>& parameters;
  const std::vector<torch::Tensor>& gradients;
  // Steps that were done, one float each, which this one is added to; or empty,
  // and then there is no bias correction.
  const std::vector<torch::Tensor>& count;
  const std::vector<torch::Tensor>& mean;
  const std::vector<torch::Tensor>& mean_square;
  const torch::Tensor& skip;  // see Optimizer::step; or undefined
};

struct AdamStep {
  double rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  bool decoupled = false;  // the decay shrinks weights, else joins the gradient
};

// One step of Adam: p -= rate * m / (sqrt(v) + epsilon), with m and v the means
// of gradients and their squares, divided by 1 - beta^count where that is
// counted. On the host it computes what torch::optim does; on a device, and
// with `skip`, by torch's fused kernels.
void move_by_adam(const AdamTensors& tensors, const AdamStep& step);

}  // namespace sluice
