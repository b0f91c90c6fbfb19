#pragma once

#include <array>

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/models/shapes.h"

namespace sluice {

// The residual networks of ImageNet (He et al. 2016, section 4.1): a stem, four
// stages of 64, 128, 256, 512 channels (times four after bottleneck blocks),
// the mean over what is left, one linear layer. Shortcuts to other shapes are
// 1 x 1 convolutions; a bottleneck halves the image in its 3 x 3 convolution.
// The stem is a 7 x 7 convolution of stride 2 and a max-pooling; in the form
// for small images a 3 x 3 convolution alone. Tensors are named as in
// torchvision; init_resnet. Images of any shape.
class ImagenetResnet : public ImageModel {
 public:
  struct Params {
    std::string form = "auto";
  };
  static ParamList list(Params& p) {
    return {{"form", &p.form, "the stem; auto: cifar for images under 64 x 64",
             0, 0, kForms}};
  }
  struct Variant {
    std::string_view name, summary;
    bool bottlenecks;
    std::array<int, 4> blocks;  // per stage
  };

  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  ImagenetResnet(const Variant& variant, const Params& params,
                 const ImageInput& input);

 private:
  bool imagenet_;
  Conv conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_{nullptr, nullptr, nullptr,
                                               nullptr};
  Linear fc_{nullptr};
};

// 11,689,512 parameters on ImageNet.
inline constexpr ImagenetResnet::Variant kResnet18 = {
    "resnet18", "residual network of 18 layers", false, {2, 2, 2, 2}};
// 21,797,672.
inline constexpr ImagenetResnet::Variant kResnet34 = {
    "resnet34", "residual network of 34 layers", false, {3, 4, 6, 3}};
// 25,557,032, on CIFAR-100 23,705,252.
inline constexpr ImagenetResnet::Variant kResnet50 = {
    "resnet50",
    "residual network of 50 layers, bottlenecks",
    true,
    {3, 4, 6, 3}};
// 44,549,160, on CIFAR-100 42,697,380.
inline constexpr ImagenetResnet::Variant kResnet101 = {
    "resnet101",
    "residual network of 101 layers, bottlenecks",
    true,
    {3, 4, 23, 3}};
// 60,192,808.
inline constexpr ImagenetResnet::Variant kResnet152 = {
    "resnet152",
    "residual network of 152 layers, bottlenecks",
    true,
    {3, 8, 36, 3}};

}  // namespace sluice
