#include "sluice/torch/optim/adam.h"

#include <cmath>

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

using Tensors = std::vector<torch::Tensor>;

// What both have in common: the means, and the step along them.
void move(const Tensors& p, const Tensors& gradients,
          const std::vector<Tensors>& kept, const AdamParams& params,
          double rate) {
  const auto& [count, mean, square] = std::tie(kept[0], kept[1], kept[2]);
  std::vector<at::Scalar> roots;
  std::vector<at::Scalar> rates;
  for (const torch::Tensor& c : count) {
    const auto steps = c.item<double>();
    roots.emplace_back(std::sqrt(1 - std::pow(params.beta2, steps)));
    rates.emplace_back(-rate / (1 - std::pow(params.beta1, steps)));
  }
  at::_foreach_mul_(mean, params.beta1);
  at::_foreach_add_(mean, gradients, 1 - params.beta1);
  at::_foreach_mul_(square, params.beta2);
  at::_foreach_addcmul_(square, gradients, gradients, 1 - params.beta2);
  Tensors root = at::_foreach_sqrt(square);
  at::_foreach_div_(root, roots);
  at::_foreach_add_(root, params.epsilon);
  at::_foreach_addcdiv_(p, mean, root, rates);
}

// A step that is skipped does not count.
void uncount(const Tensors& count, const torch::Tensor& skip) {
  at::_foreach_sub_(count, Tensors(count.size(), skip.reshape({})));
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
  const auto& [p, gradients, kept, decay, skip] = lists;
  at::_foreach_add_(kept[0], 1);
  if (!lists.is_fused()) {
    const auto d =
        decay != 0 ? at::_foreach_add(gradients, p, decay) : gradients;
    move(p, d, kept, params_, rate);
    return;
  }
  at::_fused_adam_(p, gradients, kept[1], kept[2], {}, kept[0], rate,
                   params_.beta1, params_.beta2, decay, params_.epsilon,
                   /*amsgrad=*/false, /*maximize=*/false, {},
                   skip.defined() ? std::optional(skip) : std::nullopt);
  if (skip.defined()) uncount(kept[0], skip);
}

void AdamW::update(const Lists& lists, double rate) {
  const auto& [p, gradients, kept, decay, skip] = lists;
  at::_foreach_add_(kept[0], 1);
  if (!lists.is_fused()) {
    if (decay != 0) at::_foreach_mul_(p, 1 - rate * decay);
    move(p, gradients, kept, params_, rate);
    return;
  }
  at::_fused_adamw_(p, gradients, kept[1], kept[2], {}, kept[0], rate,
                    params_.beta1, params_.beta2, decay, params_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, {},
                    skip.defined() ? std::optional(skip) : std::nullopt);
  if (skip.defined()) uncount(kept[0], skip);
}

}  // namespace sluice
