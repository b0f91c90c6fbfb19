#include "sluice/torch/optim/lamb.h"

#include <algorithm>

#include "sluice/core/error.h"
#include "sluice/torch/optim/adam_step.h"

namespace sluice {

ParamList Lamb::list(Params& p) {
  return {
      {"beta1", &p.beta1, "decay of the mean", 0, 0.999999},
      {"beta2", &p.beta2, "decay of the mean square", 0, 0.999999},
      {"epsilon", &p.epsilon, "added to the root of the mean square", 0, 1},
      {"weight_decay", &p.weight_decay, "strength", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
      {"trust_1d", &p.trust_1d, "whether their steps go by their norms"},
      {"bias_correction", &p.bias_correction, "of the means, as in Adam"},
      {"least", &p.least, "trust, at least", 0, 1e9},
      {"most", &p.most, "trust, at most", 0, 1e9},
  };
}

Lamb::Lamb(const Params& params, const NamedTensors& parameters)
    : Optimizer(
          parameters,
          params.bias_correction
              ? std::vector<Kept>{{"mean"}, {"mean_square"}, {"step", true}}
              : std::vector<Kept>{{"mean"}, {"mean_square"}},
          params.weight_decay, params.decay_1d),
      params_(params) {
  require(params.least <= params.most,
          "[optimizer 'lamb'] least must not be above most, got ", params.least,
          " and ", params.most, "; use lamb:least=0,most=10");
}

double Lamb::trust(const torch::Tensor& p, const torch::Tensor& u) const {
  if (!is_trusted(p)) return 1;
  const double weights = tensor_norm(p);
  const double step = tensor_norm(u);
  if (!(weights > 0 && step > 0)) return 1;
  return std::clamp(weights / step, params_.least, params_.most);
}

// Adam moves zeros by the direction: a step that is skipped leaves them.
std::vector<torch::Tensor> Lamb::direction(const Lists& lists) const {
  const auto& [p, gradients, kept, decay, skip] = lists;
  std::vector<torch::Tensor> u;
  for (const torch::Tensor& t : p) u.push_back(torch::zeros_like(t));
  const std::vector<torch::Tensor> none;
  move_by_adam({u, gradients, params_.bias_correction ? kept[2] : none, kept[0],
                kept[1], skip},
               {.rate = 1,
                .beta1 = params_.beta1,
                .beta2 = params_.beta2,
                .epsilon = params_.epsilon});
  if (decay != 0) at::_foreach_add_(u, p, -decay);
  return u;
}

void Lamb::update(const Lists& lists, double rate) {
  if (lists.is_fused()) {
    move_on_device(lists, rate);
    return;
  }
  // One by one, so that directions stay in the cache and their memory is that
  // of one tensor.
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    Lists one;
    one.parameters = {lists.parameters[i]};
    one.gradients = {lists.gradients[i]};
    one.weight_decay = lists.weight_decay;
    for (const auto& kind : lists.kept) one.kept.push_back({kind[i]});
    const torch::Tensor u = direction(one)[0];
    one.parameters[0].add_(u, rate * trust(one.parameters[0], u));
  }
}

// Without waiting for the norms.
void Lamb::move_on_device(const Lists& lists, double rate) const {
  const std::vector<torch::Tensor> u = direction(lists);
  std::vector<torch::Tensor> weights;
  std::vector<torch::Tensor> steps;
  for (std::size_t i = 0; i < u.size(); ++i) {
    if (!is_trusted(lists.parameters[i])) continue;
    weights.push_back(lists.parameters[i]);
    steps.push_back(u[i]);
  }
  if (!steps.empty()) {
    const torch::Tensor w = at::stack(at::_foreach_norm(weights));
    const torch::Tensor s = at::stack(at::_foreach_norm(steps));
    const torch::Tensor trusts =
        at::where((w > 0).logical_and(s > 0),
                  (w / s).clamp(params_.least, params_.most), 1);
    at::_foreach_mul_(steps, trusts.unbind());
  }
  if (lists.skip.defined()) {
    at::_foreach_mul_(u, 1 - lists.skip.reshape({}));
  }
  at::_foreach_add_(lists.parameters, u, rate);
}

}  // namespace sluice
