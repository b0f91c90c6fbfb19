#include "sluice/torch/models/init.h"

#include <cmath>

#include "sluice/torch/models/layers.h"

namespace sluice {
namespace {

// Draws a layer's weight (outputs x inputs x kernel) and bias, if it has one.
using Draw = void (*)(torch::Tensor weight, torch::Tensor bias,
                      torch::Generator& generator);

void init_layers(torch::nn::Module& module, torch::Generator& generator,
                 Draw convolution, Draw linear) {
  for (const auto& layer : module.modules(false)) {
    if (auto* batch_norm = layer->as<BatchNorm>()) {
      batch_norm->reset();
    } else if (auto* layer_norm = layer->as<LayerNorm>()) {
      layer_norm->reset();
    } else if (auto* conv = layer->as<Conv>()) {
      convolution(conv->weight, conv->bias, generator);
    } else if (auto* dense = layer->as<Linear>()) {
      linear(dense->weight, dense->bias, generator);
    } else if (auto* embedding = layer->as<Embedding>()) {
      linear(embedding->weight, {}, generator);
    } else if (auto* lstm = layer->as<Lstm>()) {
      const double bound = 1 / std::sqrt(static_cast<double>(lstm->width()));
      for (auto& tensor : lstm->parameters(false)) {
        tensor.uniform_(-bound, bound, generator);
      }
    }
  }
}

double kernel_size(const torch::Tensor& weight) {
  return static_cast<double>(weight.numel()) /
         static_cast<double>(weight.size(0) * weight.size(1));
}

void clear(torch::Tensor bias) {
  if (bias.defined()) bias.zero_();
}

void draw_uniform(torch::Tensor weight, torch::Tensor bias,
                  torch::Generator& generator) {
  const double inputs =
      static_cast<double>(weight.size(1)) * kernel_size(weight);
  const double bound = 1 / std::sqrt(inputs);
  weight.uniform_(-bound, bound, generator);
  if (bias.defined()) bias.uniform_(-bound, bound, generator);
}

// Dimension 0: outputs; 1: inputs.
template <int Dimension>
void draw_he(torch::Tensor weight, torch::Tensor bias,
             torch::Generator& generator) {
  const double fan =
      static_cast<double>(weight.size(Dimension)) * kernel_size(weight);
  weight.normal_(0, std::sqrt(2 / fan), generator);
  clear(bias);
}

// In hundredths.
template <int Deviation>
void draw_normal(torch::Tensor weight, torch::Tensor bias,
                 torch::Generator& generator) {
  weight.normal_(0, Deviation / 100.0, generator);
  clear(bias);
}

void draw_transformer(torch::Tensor weight, torch::Tensor bias,
                      torch::Generator& generator) {
  draw_truncated(weight, 0.02, generator);
  clear(bias);
}

}  // namespace

void init_uniform(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_uniform, draw_uniform);
}

void init_he(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_he<0>, draw_he<1>);
}

void init_resnet(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_he<0>, draw_uniform);
}

void init_vgg(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_he<0>, draw_normal<1>);
}

void init_transformer(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_transformer, draw_transformer);
}

void init_gpt2(torch::nn::Module& module, torch::Generator& generator) {
  init_layers(module, generator, draw_normal<2>, draw_normal<2>);
}

void draw_truncated(torch::Tensor tensor, double deviation,
                    torch::Generator& generator) {
  // The inverse of the distribution function, so that every element takes one
  // number of the generator.
  const double edge = std::erf(std::sqrt(2.0));
  tensor.uniform_(-edge, edge, generator);
  tensor.erfinv_().mul_(deviation * std::sqrt(2.0));
}

}  // namespace sluice
