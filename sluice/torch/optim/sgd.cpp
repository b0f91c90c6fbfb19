#include "sluice/torch/optim/sgd.h"

#include "sluice/core/error.h"

namespace sluice {
ParamList Sgd::list(Params& p) {
  return {
      {"momentum", &p.momentum, "share of the last direction", 0, 0.9999},
      {"nesterov", &p.nesterov, "look ahead along the momentum"},
      {"weight_decay", &p.weight_decay, "share of the weights added", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
  };
}

Sgd::Sgd(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters,
                params.momentum > 0 ? std::vector<Kept>{{"momentum"}}
                                    : std::vector<Kept>{},
                params.weight_decay, params.decay_1d),
      momentum_(params.momentum),
      nesterov_(params.nesterov) {
  require(!params.nesterov || params.momentum > 0,
          "[optimizer 'sgd'] nesterov needs a momentum above 0, got ",
          params.momentum, "; use sgd:momentum=0.9,nesterov=true");
}

void Sgd::update(const Lists& lists, double rate) {
  const auto& [p, gradients, kept, decay, skip] = lists;
  if (lists.is_fused()) {
    at::_fused_sgd_(p, gradients, kept.empty() ? at::TensorList() : kept[0],
                    decay, momentum_, rate, /*dampening=*/0, nesterov_,
                    /*maximize=*/false, /*is_first_step=*/false, {},
                    skip.defined() ? std::optional(skip) : std::nullopt);
    return;
  }
  std::vector<torch::Tensor> d = gradients;
  if (decay != 0) d = at::_foreach_add(d, p, decay);
  if (momentum_ > 0) {
    const auto& m = kept[0];
    at::_foreach_mul_(m, momentum_);
    at::_foreach_add_(m, d);
    d = nesterov_ ? at::_foreach_add(d, m, momentum_) : m;
  }
  at::_foreach_add_(p, d, -rate);
}

}  // namespace sluice
