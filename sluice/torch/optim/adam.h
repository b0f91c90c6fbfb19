#pragma once

#include "sluice/config/recipe.h"
#include "sluice/torch/optim/optimizer.h"

namespace sluice {

struct AdamParams {
  double beta1 = kAdamBeta1;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decay_1d = true;
};

// Kingma, Ba 2015, with weight decay as part of the gradient.
class Adam final : public Optimizer {
 public:
  static constexpr std::string_view kName = "adam";
  static constexpr std::string_view kSummary =
      "Adam; weight decay joins the gradient";
  using Params = AdamParams;
  static ParamList list(Params& p);

  Adam(const Params& params, const NamedTensors& parameters);

 private:
  void update(const Lists& lists, double rate) override;

  AdamParams params_;
};

// Loshchilov, Hutter 2019: weight decay shrinks the weights by themselves.
class AdamW final : public Optimizer {
 public:
  static constexpr std::string_view kName = "adamw";
  static constexpr std::string_view kSummary =
      "Adam; weight decay shrinks weights by themselves";
  struct Params : AdamParams {
    Params() { weight_decay = 0.01; }
  };
  static ParamList list(Params& p);

  AdamW(const Params& params, const NamedTensors& parameters);

 private:
  void update(const Lists& lists, double rate) override;

  AdamParams params_;
};

}  // namespace sluice
