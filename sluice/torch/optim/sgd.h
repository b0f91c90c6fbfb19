#pragma once

#include "sluice/config/recipe.h"
#include "sluice/torch/optim/optimizer.h"

namespace sluice {

// d = gradient + weight_decay * p; m = momentum * m + d, at first m = d;
// p -= rate * (nesterov ? d + momentum * m : m).
class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view kName = "sgd";
  static constexpr std::string_view kSummary =
      "stochastic gradient descent with momentum";
  struct Params {
    double momentum = kSgdMomentum;
    bool nesterov = false;
    double weight_decay = 0;
    bool decay_1d = true;
  };
  static ParamList list(Params& p);

  Sgd(const Params& params, const NamedTensors& parameters);

 private:
  void update(const Lists& lists, double rate) override;

  double momentum_;
  bool nesterov_;
};

}  // namespace sluice
