#include "sluice/torch/optim/bert_adam.h"

#include "sluice/torch/optim/adam_step.h"

namespace sluice {

ParamList BertAdam::list(Params& p) {
  return {
      {"beta1", &p.beta1, "decay of the mean", 0, 0.999999},
      {"beta2", &p.beta2, "decay of the mean square", 0, 0.999999},
      {"epsilon", &p.epsilon, "added to the root of the mean square", 0, 1},
      {"weight_decay", &p.weight_decay, "strength", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
      {"clip", &p.clip, "norm of each tensor's gradient, at most; 0: any", 0,
       1e30},
  };
}

BertAdam::BertAdam(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters, {{"mean"}, {"mean_square"}}, params.weight_decay,
                params.decay_1d),
      params_(params) {}

void BertAdam::update(const Lists& lists, double rate) {
  if (params_.clip > 0 && lists.is_fused()) {
    clip_each_on_device(lists.gradients, params_.clip);
  } else if (params_.clip > 0) {
    clip_each(lists.gradients, params_.clip);
  }
  const std::vector<torch::Tensor> no_count;
  move_by_adam({lists.parameters, lists.gradients, no_count, lists.kept[0],
                lists.kept[1], lists.skip},
               {.rate = rate,
                .beta1 = params_.beta1,
                .beta2 = params_.beta2,
                .epsilon = params_.epsilon,
                .weight_decay = lists.weight_decay,
                .decoupled = true});
}

}  // namespace sluice
