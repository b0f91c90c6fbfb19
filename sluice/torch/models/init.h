#pragma once

#include <torch/torch.h>

namespace sluice {

// How the parameters of all layers below a module are drawn. Both set
// normalisation layers to scale 1 and shift 0.

// Weights and biases uniform within +-1 / sqrt(inputs of a unit), which is what
// the layers of PyTorch do by default and the published MNIST jobs left as is.
void init_uniform(torch::nn::Module& module, torch::Generator& generator);

// He et al. 2015: convolutions normal with variance 2 / (kernel * outputs),
// linear layers normal with variance 2 / inputs, biases 0. The published CIFAR
// jobs do this.
void init_he(torch::nn::Module& module, torch::Generator& generator);

}  // namespace sluice
