#pragma once

#include <string>
#include <vector>

#include "sluice/torch/models/layers.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// Linear layers with ReLU between them, over the pixels of an image of any
// shape; init_uniform.
class DenseModel : public ImageModel {
 public:
  torch::Tensor forward(const torch::Tensor& images) override;

 protected:
  // Layers of these widths, and one to the classes.
  DenseModel(const std::vector<std::int64_t>& widths, const ImageInput& input);

 private:
  std::vector<Linear> layers_;
};

// Softmax regression, the `lr` of the papers; 7,850 parameters on MNIST.
class Logistic final : public DenseModel {
 public:
  static constexpr std::string_view kName = "logistic";
  static constexpr std::string_view kSummary =
      "softmax regression: one linear layer";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  Logistic(const Params&, const ImageInput& input) : DenseModel({}, input) {}
};

// The papers' fcn5net, three layers despite its name; 199,210 parameters on
// MNIST.
class Fcn5net final : public DenseModel {
 public:
  static constexpr std::string_view kName = "fcn5net";
  static constexpr std::string_view kSummary = "linear layers 200-200";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  Fcn5net(const Params&, const ImageInput& input)
      : DenseModel({200, 200}, input) {}
};

// 1,863,690 parameters on MNIST by default.
class Mlp final : public DenseModel {
 public:
  static constexpr std::string_view kName = "mlp";
  static constexpr std::string_view kSummary = "linear layers of any widths";
  struct Params {
    std::string widths = "1024-1024";
  };
  static ParamList list(Params& p) {
    return {{"widths", &p.widths, "of the inner layers, joined by '-'"}};
  }

  Mlp(const Params& params, const ImageInput& input);
};

}  // namespace sluice
