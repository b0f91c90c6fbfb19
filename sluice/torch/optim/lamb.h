#pragma once

#include "sluice/config/recipe.h"
#include "sluice/torch/optim/optimizer.h"

namespace sluice {

// You et al. 2020, for large batches: the step of each tensor is as long as the
// tensor is.
//
//   u = m / (sqrt(v) + epsilon) + weight_decay * p     m, v as in Adam
//   p -= rate * trust * u      trust = |p| / |u|, within [least, most]
//
// A tensor of which |p| or |u| is 0 has a trust of 1, and so have tensors of
// one dimension (biases, normalisation), as in the published code.
class Lamb final : public Optimizer {
 public:
  static constexpr std::string_view kName = "lamb";
  static constexpr std::string_view kSummary =
      "Adam whose steps are as long as each tensor's weights";
  struct Params {
    double beta1 = kAdamBeta1;
    double beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 0.01;
    bool decay_1d = false;
    bool trust_1d = false;
    bool bias_correction = true;
    double least = 0;
    double most = 10;
  };
  static ParamList list(Params& p);

  // Throws std::invalid_argument if `least` is above `most`.
  Lamb(const Params& params, const NamedTensors& parameters);

 private:
  void update(const Lists& lists, double rate) override;
  double trust(const torch::Tensor& p, const torch::Tensor& u) const;
  bool is_trusted(const torch::Tensor& p) const {
    return params_.trust_1d || p.dim() > 1;
  }
  // Counts the step; -u of each parameter.
  std::vector<torch::Tensor> direction(const Lists& lists) const;
  void move_on_device(const Lists& lists, double rate) const;

  Params params_;
};

}  // namespace sluice
