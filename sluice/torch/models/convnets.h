#pragma once

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// The papers' MNIST network: two 5 x 5 convolutions of 10 and 20 channels with
// max-pooling, linear layers of 50 and the classes, dropout of one half after
// the second convolution and the first linear layer; init_uniform. 21,840
// parameters on MNIST. Images of 16 x 16 at least.
class MnistNet final : public ImageModel {
 public:
  static constexpr std::string_view kName = "mnistnet";
  static constexpr std::string_view kSummary =
      "two 5 x 5 convolutions and two linear layers, dropout";
  struct Params {
    double dropout = 0.5;
  };
  static ParamList list(Params& p) {
    return {{"dropout", &p.dropout, "share that is dropped", 0, 0.99}};
  }

  MnistNet(const Params& params, const ImageInput& input);
  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  double dropout_;
  Conv conv1_{nullptr}, conv2_{nullptr};
  Linear fc1_{nullptr}, fc2_{nullptr};
};

// LeNet-5 (LeCun et al. 1998) as it is built today: ReLU and max-pooling, full
// connections from the first maps to the second; init_uniform. Images of 32 x
// 32, or of 28 x 28, which are padded. 61,706 parameters on MNIST.
class Lenet final : public ImageModel {
 public:
  static constexpr std::string_view kName = "lenet";
  static constexpr std::string_view kSummary =
      "LeNet-5: two 5 x 5 convolutions and linear layers 120-84";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  Lenet(const Params&, const ImageInput& input);
  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  std::int64_t padding_;
  Conv conv1_{nullptr}, conv2_{nullptr};
  Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};

}  // namespace sluice
