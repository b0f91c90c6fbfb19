#pragma once

#include <array>

#include "sluice/torch/models/form.h"
#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// The residual networks of ImageNet (He et al. 2016, section 4.1): a stem, four
// stages of 64, 128, 256, 512 channels (times four after bottleneck blocks),
// the mean over what is left, one linear layer. Shortcuts to other shapes are
// 1 x 1 convolutions; a bottleneck halves the image in its 3 x 3 convolution.
// The stem is a 7 x 7 convolution of stride 2 and a max-pooling; in the form
// for small images a 3 x 3 convolution alone. Tensors are named as in
// torchvision; init_resnet. Images of any shape.
class ImagenetResnet : public Model {
 public:
  struct Params {
    std::string form = "auto";
  };
  static ParamList list(Params& p) {
    return {{"form", &p.form, "the stem; auto: cifar for images under 64 x 64",
             0, 0, kForms}};
  }

  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  enum class Block { kBasic, kBottleneck };
  // Blocks per stage.
  ImagenetResnet(Block block, const std::array<int, 4>& blocks,
                 const Params& params, const Input& input);

 private:
  void draw_parameters(torch::Generator& generator) override;

  bool imagenet_;
  Conv conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_{nullptr, nullptr, nullptr,
                                               nullptr};
  Linear fc_{nullptr};
};

// 11,689,512 parameters on ImageNet.
class Resnet18 final : public ImagenetResnet {
 public:
  static constexpr std::string_view kName = "resnet18";
  static constexpr std::string_view kSummary = "residual network of 18 layers";
  Resnet18(const Params& params, const Input& input)
      : ImagenetResnet(Block::kBasic, {2, 2, 2, 2}, params, input) {}
};

// 21,797,672 parameters on ImageNet.
class Resnet34 final : public ImagenetResnet {
 public:
  static constexpr std::string_view kName = "resnet34";
  static constexpr std::string_view kSummary = "residual network of 34 layers";
  Resnet34(const Params& params, const Input& input)
      : ImagenetResnet(Block::kBasic, {3, 4, 6, 3}, params, input) {}
};

// 25,557,032 parameters on ImageNet, 23,705,252 on CIFAR-100.
class Resnet50 final : public ImagenetResnet {
 public:
  static constexpr std::string_view kName = "resnet50";
  static constexpr std::string_view kSummary =
      "residual network of 50 layers, bottlenecks";
  Resnet50(const Params& params, const Input& input)
      : ImagenetResnet(Block::kBottleneck, {3, 4, 6, 3}, params, input) {}
};

// 44,549,160 parameters on ImageNet, 42,697,380 on CIFAR-100.
class Resnet101 final : public ImagenetResnet {
 public:
  static constexpr std::string_view kName = "resnet101";
  static constexpr std::string_view kSummary =
      "residual network of 101 layers, bottlenecks";
  Resnet101(const Params& params, const Input& input)
      : ImagenetResnet(Block::kBottleneck, {3, 4, 23, 3}, params, input) {}
};

// 60,192,808 parameters on ImageNet.
class Resnet152 final : public ImagenetResnet {
 public:
  static constexpr std::string_view kName = "resnet152";
  static constexpr std::string_view kSummary =
      "residual network of 152 layers, bottlenecks";
  Resnet152(const Params& params, const Input& input)
      : ImagenetResnet(Block::kBottleneck, {3, 8, 36, 3}, params, input) {}
};

}  // namespace sluice
