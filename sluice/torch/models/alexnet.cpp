#include "sluice/torch/models/alexnet.h"

#include "sluice/core/error.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {
namespace {

torch::nn::Sequential convolutions(std::int64_t channels) {
  const auto conv = [](std::int64_t inputs, std::int64_t outputs,
                       std::int64_t kernel, std::int64_t stride = 1) {
    return Conv(inputs, outputs, kernel,
                ConvImpl::Options{.stride = stride,
                                  .padding = kernel == 11 ? 2 : kernel / 2});
  };
  const auto relu = [] { return torch::nn::ReLU(true); };
  const auto pool = [] {
    return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2));
  };
  return torch::nn::Sequential(conv(channels, 64, 11, 4), relu(), pool(),
                               conv(64, 192, 5), relu(), pool(),
                               conv(192, 384, 3), relu(),  //
                               conv(384, 256, 3), relu(),  //
                               conv(256, 256, 3), relu(), pool());
}

}  // namespace

Alexnet::Alexnet(const Params& params, const ImageInput& input)
    : ImageModel(init_uniform) {
  require(input.height >= 63 && input.width >= 63,
          "[model 'alexnet'] images must be at least 63 x 63, got ",
          input.height, " x ", input.width);
  features_ = register_module("features", convolutions(input.channels));
  torch::nn::Sequential layers;
  std::int64_t inputs = 256 * 6 * 6;
  for (const std::int64_t width : parse_widths(kName, params.widths)) {
    layers->push_back(Dropout(params.dropout, noise()));
    layers->push_back(Linear(inputs, width));
    layers->push_back(torch::nn::ReLU(true));
    inputs = width;
  }
  layers->push_back(Linear(inputs, input.classes));
  classifier_ = register_module("classifier", layers);
}

torch::Tensor Alexnet::forward(const torch::Tensor& images) {
  const torch::Tensor x = features_->forward(images);
  return classifier_->forward(torch::adaptive_avg_pool2d(x, {6, 6}).flatten(1));
}

}  // namespace sluice
