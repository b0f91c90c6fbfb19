#include "sluice/torch/optim/adam.h"

#include "sluice/torch/optim/adam_step.h"

namespace sluice {
namespace {

ParamList list_adam(AdamParams& p) {
  return {
      {"beta1", &p.beta1, "decay of the mean", 0, 0.999999},
      {"beta2", &p.beta2, "decay of the mean square", 0, 0.999999},
      {"epsilon", &p.epsilon, "added to the root of the mean square", 0, 1},
      {"weight_decay", &p.weight_decay, "strength", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
  };
}

AdamStep step_of(const AdamParams& p, double rate, double decay) {
  return {.rate = rate,
          .beta1 = p.beta1,
          .beta2 = p.beta2,
          .epsilon = p.epsilon,
          .weight_decay = decay};
}

}  // namespace

ParamList Adam::list(Params& p) { return list_adam(p); }
ParamList AdamW::list(Params& p) { return list_adam(p); }

Adam::Adam(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters, {{"step", true}, {"mean"}, {"mean_square"}},
                params.weight_decay, params.decay_1d),
      params_(params) {}

AdamW::AdamW(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters, {{"step", true}, {"mean"}, {"mean_square"}},
                params.weight_decay, params.decay_1d),
      params_(params) {}

void Adam::update(const Lists& lists, double rate) {
  move_by_adam({lists.parameters, lists.gradients, lists.kept[0], lists.kept[1],
                lists.kept[2], lists.skip},
               step_of(params_, rate, lists.weight_decay));
}

void AdamW::update(const Lists& lists, double rate) {
  AdamStep step = step_of(params_, rate, lists.weight_decay);
  step.decoupled = true;
  move_by_adam({lists.parameters, lists.gradients, lists.kept[0], lists.kept[1],
                lists.kept[2], lists.skip},
               step);
}

}  // namespace sluice
