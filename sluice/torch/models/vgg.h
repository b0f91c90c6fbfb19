#pragma once

#include "sluice/torch/models/model.h"

namespace sluice {

// VGG-16 (Simonyan, Zisserman 2015) as it is used on CIFAR: 13 convolutions of
// 3 x 3 with bias and batch normalisation, five max-poolings, one linear layer
// of 512 to the classes; init_he. Images of 32 x 32, or of 28 x 28, which are
// padded. 14,728,266 parameters in 54 tensors on CIFAR-10.
class Vgg16 final : public Model {
 public:
  static constexpr std::string_view kName = "vgg16";
  static constexpr std::string_view kSummary =
      "VGG-16 with batch normalisation for small images";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  Vgg16(const Params&, const Input& input);
  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  void draw_parameters(torch::Generator& generator) override;

  std::int64_t padding_;
  torch::nn::Sequential features_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace sluice
