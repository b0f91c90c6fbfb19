#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// AlexNet in one column (Krizhevsky 2014), as torchvision has it, with its
// names of tensors: five convolutions, the first 11 x 11 of stride 4, pooling
// to 6 x 6, two inner linear layers with dropout before them; init_uniform.
// Images of 63 x 63 at least. 61,100,840 parameters on ImageNet.
class Alexnet final : public ImageModel {
 public:
  static constexpr std::string_view kName = "alexnet";
  static constexpr std::string_view kSummary =
      "AlexNet: five convolutions and linear layers, for images from 63 x 63";
  struct Params {
    std::string widths = "4096-4096";
    double dropout = 0.5;
  };
  static ParamList list(Params& p) {
    return {
        {"widths", &p.widths, "of the inner linear layers, joined by '-'"},
        {"dropout", &p.dropout, "before every inner linear layer", 0, 0.99}};
  }

  Alexnet(const Params& params, const ImageInput& input);
  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  torch::nn::Sequential features_{nullptr}, classifier_{nullptr};
};

}  // namespace sluice
