#include "sluice/torch/optim/sgd.h"

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr std::string_view kMomentum = "momentum";

}  // namespace

ParamList Sgd::list(Params& p) {
  return {
      {"momentum", &p.momentum, "share of the last direction", 0, 0.9999},
      {"nesterov", &p.nesterov, "look ahead along the momentum"},
      {"weight_decay", &p.weight_decay, "share of the weights added", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
  };
}

Sgd::Sgd(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters) {
  require(!params.nesterov || params.momentum > 0,
          "[optimizer 'sgd'] nesterov needs a momentum above 0, got ",
          params.momentum, "; use sgd:momentum=0.9,nesterov=true");
  make_engine<torch::optim::SGD>(torch::optim::SGDOptions(0)
                                     .momentum(params.momentum)
                                     .nesterov(params.nesterov)
                                     .weight_decay(params.weight_decay),
                                 params.decay_1d);
}

NamedTensors Sgd::save(const std::string& prefix,
                       const ParamState& state) const {
  const auto& mine = static_cast<const torch::optim::SGDParamState&>(state);
  return {{concat(prefix, kMomentum), mine.momentum_buffer()}};
}

auto Sgd::load(const std::string& prefix, const NamedTensors& state,
               const torch::Device& device) const
    -> std::unique_ptr<ParamState> {
  const torch::Tensor buffer = find_tensor(state, concat(prefix, kMomentum));
  if (!buffer.defined()) return nullptr;
  auto mine = std::make_unique<torch::optim::SGDParamState>();
  mine->momentum_buffer(buffer.to(device, false, true));
  return mine;
}

}  // namespace sluice
