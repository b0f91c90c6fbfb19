#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// A residual network for small images (He et al. 2016, section 4.2): a 3 x 3
// stem of 16 channels, three stages of n blocks with 16, 32, 64 channels, the
// mean over what is left, one linear layer; 6n + 2 layers. Shortcuts have no
// parameters (option A: every second pixel, new channels zero), convolutions no
// bias; init_he. Images of any shape, 4 x 4 at least.
class Resnet : public Model {
 public:
  struct Params {};
  static ParamList list(Params&) { return {}; }

  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  // `blocks` per stage.
  Resnet(std::string_view name, std::int64_t blocks, const Input& input);

 private:
  void draw_parameters(torch::Generator& generator) override;

  Conv conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  torch::nn::Sequential stages_{nullptr};
  Linear fc_{nullptr};
};

// 269,722 parameters on CIFAR-10.
class Resnet20 final : public Resnet {
 public:
  static constexpr std::string_view kName = "resnet20";
  static constexpr std::string_view kSummary =
      "residual network of 20 layers for small images";
  Resnet20(const Params&, const Input& input) : Resnet(kName, 3, input) {}
};

// 853,018 parameters on CIFAR-10.
class Resnet56 final : public Resnet {
 public:
  static constexpr std::string_view kName = "resnet56";
  static constexpr std::string_view kSummary =
      "residual network of 56 layers for small images";
  Resnet56(const Params&, const Input& input) : Resnet(kName, 9, input) {}
};

// 1,727,962 parameters on CIFAR-10.
class Resnet110 final : public Resnet {
 public:
  static constexpr std::string_view kName = "resnet110";
  static constexpr std::string_view kSummary =
      "residual network of 110 layers for small images";
  Resnet110(const Params&, const Input& input) : Resnet(kName, 18, input) {}
};

}  // namespace sluice
