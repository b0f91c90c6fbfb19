#pragma once

#include <torch/torch.h>

namespace sluice {

// How the parameters of all layers below a module are drawn; normalisation
// layers get scale 1 and shift 0, embeddings are drawn as linear layers without
// bias, and recurrent layers uniform within +-1 / sqrt(width) as in PyTorch.
using Init = void (*)(torch::nn::Module& module, torch::Generator& generator);

// Weights and biases uniform within +-1 / sqrt(inputs of a unit), which is what
// the layers of PyTorch do by default and the published MNIST jobs left as is.
void init_uniform(torch::nn::Module& module, torch::Generator& generator);

// He et al. 2015: convolutions normal with variance 2 / (kernel * outputs),
// linear layers normal with variance 2 / inputs, biases 0. The published CIFAR
// jobs do this.
void init_he(torch::nn::Module& module, torch::Generator& generator);

// Convolutions as init_he, linear layers as init_uniform: torchvision's ResNet.
void init_resnet(torch::nn::Module& module, torch::Generator& generator);

// Convolutions as init_he, linear layers normal with deviation 0.01, biases 0:
// torchvision's VGG.
void init_vgg(torch::nn::Module& module, torch::Generator& generator);

// All weights by draw_truncated of deviation 0.02, biases 0.
void init_transformer(torch::nn::Module& module, torch::Generator& generator);

// All weights normal with deviation 0.02, biases 0: GPT-2.
void init_gpt2(torch::nn::Module& module, torch::Generator& generator);

// Normal, cut at two deviations.
void draw_truncated(torch::Tensor tensor, double deviation,
                    torch::Generator& generator);

}  // namespace sluice
