#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// A residual network for small images (He et al. 2016, section 4.2): a 3 x 3
// stem of 16 channels, three stages of n blocks with 16, 32, 64 channels, the
// mean over what is left, one linear layer; 6n + 2 layers. Shortcuts have no
// parameters (option A: every second pixel, new channels zero), convolutions no
// bias; init_he. Images of any shape, 4 x 4 at least.
class Resnet : public ImageModel {
 public:
  struct Params {};
  static ParamList list(Params&) { return {}; }
  struct Variant {
    std::string_view name, summary;
    std::int64_t blocks;  // per stage
  };

  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  Resnet(const Variant& variant, const Params&, const ImageInput& input);

 private:
  Conv conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  torch::nn::Sequential stages_{nullptr};
  Linear fc_{nullptr};
};

// 269,722 parameters on CIFAR-10.
inline constexpr Resnet::Variant kResnet20 = {
    "resnet20", "residual network of 20 layers for small images", 3};
// 853,018.
inline constexpr Resnet::Variant kResnet56 = {
    "resnet56", "residual network of 56 layers for small images", 9};
// 1,727,962.
inline constexpr Resnet::Variant kResnet110 = {
    "resnet110", "residual network of 110 layers for small images", 18};

}  // namespace sluice
