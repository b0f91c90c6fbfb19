#include "sluice/torch/models/vgg.h"

#include "sluice/core/error.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {
namespace {

constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};

torch::nn::Sequential convolutions(const std::array<int, 5>& stages,
                                   bool normalise, std::int64_t channels) {
  torch::nn::Sequential layers;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      layers->push_back(
          Conv(channels, kChannels[stage], 3, ConvImpl::Options{.padding = 1}));
      channels = kChannels[stage];
      if (normalise) layers->push_back(BatchNorm(channels));
      layers->push_back(torch::nn::ReLU(true));
    }
    layers->push_back(torch::nn::MaxPool2d(2));
  }
  return layers;
}

}  // namespace

Vgg::Vgg(const Variant& variant, const Params& params, const ImageInput& input)
    : ImageModel(is_imagenet_form(params.form, input) ? init_vgg : init_he),
      imagenet_(is_imagenet_form(params.form, input)) {
  const auto& [name, summary, stages] = variant;
  if (imagenet_) {
    require(input.height >= 32 && input.width >= 32, "[model '", name,
            "'] images must be at least 32 x 32 in form imagenet, got ",
            input.height, " x ", input.width);
  } else {
    padding_ = padding_to_32(name, input);
  }
  const bool normalise = params.bn == "auto" ? !imagenet_ : params.bn == "true";
  features_ = register_module("features",
                              convolutions(stages, normalise, input.channels));
  std::string widths = params.widths;
  if (widths == "auto") widths = imagenet_ ? "4096-4096" : "";
  const std::int64_t inputs = kChannels.back() * (imagenet_ ? 7 * 7 : 1);
  if (widths.empty()) {
    fc_ = register_module("fc", Linear(inputs, input.classes));
  } else {
    classifier_ = register_module(
        "classifier", inner_layers(inputs, parse_widths(name, widths),
                                   params.dropout, input.classes));
  }
}

torch::nn::Sequential Vgg::inner_layers(std::int64_t inputs,
                                        const std::vector<std::int64_t>& widths,
                                        double dropout, std::int64_t classes) {
  torch::nn::Sequential layers;
  for (const std::int64_t width : widths) {
    layers->push_back(Linear(inputs, width));
    layers->push_back(torch::nn::ReLU(true));
    layers->push_back(Dropout(dropout, noise()));
    inputs = width;
  }
  layers->push_back(Linear(inputs, classes));
  return layers;
}

torch::Tensor Vgg::forward(const torch::Tensor& images) {
  torch::Tensor x = features_->forward(pad(images, padding_));
  if (imagenet_) x = torch::adaptive_avg_pool2d(x, {7, 7});
  x = x.flatten(1);
  return fc_.is_empty() ? classifier_->forward(x) : fc_->forward(x);
}

}  // namespace sluice
