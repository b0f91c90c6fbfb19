#pragma once

#include "sluice/config/recipe.h"
#include "sluice/torch/optim/optimizer.h"

namespace sluice {

// The Adam of the original BERT code: no bias correction, and weight decay that
// shrinks weights by themselves, with none for biases and normalisation. Each
// gradient is clipped by itself first, in place.
class BertAdam final : public Optimizer {
 public:
  static constexpr std::string_view kName = "bertadam";
  static constexpr std::string_view kSummary =
      "BERT's Adam: no bias correction, each tensor clipped by itself";
  struct Params {
    double beta1 = kAdamBeta1;
    double beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 0.01;
    bool decay_1d = false;
    double clip = 1;
  };
  static ParamList list(Params& p);

  BertAdam(const Params& params, const NamedTensors& parameters);

 private:
  void update(const Lists& lists, double rate) override;

  Params params_;
};

}  // namespace sluice
