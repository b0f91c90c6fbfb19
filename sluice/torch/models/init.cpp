#include "sluice/torch/models/init.h"

#include <cmath>

namespace sluice {
namespace {

// A layer's weight (outputs x inputs x kernel) and bias, if it has one.
template <class Visit>
void visit_layers(torch::nn::Module& module, const Visit& visit) {
  for (const auto& layer : module.modules(false)) {
    if (auto* norm = layer->as<torch::nn::BatchNorm2d>()) {
      norm->weight.fill_(1);
      norm->bias.zero_();
      norm->reset_running_stats();
    } else if (auto* conv = layer->as<torch::nn::Conv2d>()) {
      visit(conv->weight, conv->bias);
    } else if (auto* linear = layer->as<torch::nn::Linear>()) {
      visit(linear->weight, linear->bias);
    }
  }
}

double kernel_size(const torch::Tensor& weight) {
  return static_cast<double>(weight.numel()) /
         static_cast<double>(weight.size(0) * weight.size(1));
}

}  // namespace

void init_uniform(torch::nn::Module& module, torch::Generator& generator) {
  visit_layers(module, [&](torch::Tensor weight, torch::Tensor bias) {
    const double inputs =
        static_cast<double>(weight.size(1)) * kernel_size(weight);
    const double bound = 1 / std::sqrt(inputs);
    weight.uniform_(-bound, bound, generator);
    if (bias.defined()) bias.uniform_(-bound, bound, generator);
  });
}

void init_he(torch::nn::Module& module, torch::Generator& generator) {
  visit_layers(module, [&](torch::Tensor weight, torch::Tensor bias) {
    const bool convolution = weight.dim() == 4;
    const double fan = static_cast<double>(weight.size(convolution ? 0 : 1)) *
                       kernel_size(weight);
    weight.normal_(0, std::sqrt(2 / fan), generator);
    if (bias.defined()) bias.zero_();
  });
}

}  // namespace sluice
