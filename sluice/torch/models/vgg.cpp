#include "sluice/torch/models/vgg.h"

#include "sluice/torch/models/init.h"
#include "sluice/torch/models/padding.h"

namespace sluice {
namespace {

// Output channels of the convolutions; 0 is a max-pooling.
constexpr std::int64_t kLayers[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                    0,  512, 512, 512, 0,   512, 512, 512, 0};

}  // namespace

Vgg16::Vgg16(const Params&, const Input& input)
    : padding_(padding_to_32("vgg16", input)) {
  torch::nn::Sequential features;
  std::int64_t channels = input.channels;
  for (const std::int64_t outputs : kLayers) {
    if (outputs == 0) {
      features->push_back(torch::nn::MaxPool2d(2));
      continue;
    }
    features->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, outputs, 3).padding(1)));
    features->push_back(torch::nn::BatchNorm2d(outputs));
    features->push_back(torch::nn::ReLU(true));
    channels = outputs;
  }
  features_ = register_module("features", features);
  fc_ = register_module("fc", torch::nn::Linear(channels, input.classes));
}

torch::Tensor Vgg16::forward(const torch::Tensor& images) {
  return fc_->forward(features_->forward(pad(images, padding_)).flatten(1));
}

void Vgg16::draw_parameters(torch::Generator& generator) {
  init_he(*this, generator);
}

}  // namespace sluice
