#include "sluice/torch/optim/adam.h"

#include <tuple>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using torch::optim::OptimizerParamState;

ParamList list_adam(AdamParams& p) {
  return {
      {"beta1", &p.beta1, "decay of the mean", 0, 0.999999},
      {"beta2", &p.beta2, "decay of the mean square", 0, 0.999999},
      {"epsilon", &p.epsilon, "added to the root of the mean square", 0, 1},
      {"weight_decay", &p.weight_decay, "strength", 0, 1},
      {"decay_1d", &p.decay_1d, "whether biases and normalisation decay"},
  };
}

template <class Options>
Options options_of(const AdamParams& params) {
  return Options(0)
      .betas(std::tuple(params.beta1, params.beta2))
      .eps(params.epsilon)
      .weight_decay(params.weight_decay);
}

// torch's two states have the same members and no common base.
template <class State>
NamedTensors save_as(const std::string& prefix,
                     const OptimizerParamState& state) {
  const auto& mine = static_cast<const State&>(state);
  return {{prefix + "step", torch::tensor(mine.step(), torch::kInt64)},
          {prefix + "mean", mine.exp_avg()},
          {prefix + "mean_square", mine.exp_avg_sq()}};
}

template <class State>
std::unique_ptr<OptimizerParamState> load_as(const std::string& prefix,
                                             const NamedTensors& state,
                                             const torch::Device& device) {
  const torch::Tensor step = find_tensor(state, prefix + "step");
  const torch::Tensor mean = find_tensor(state, prefix + "mean");
  const torch::Tensor square = find_tensor(state, prefix + "mean_square");
  if (!step.defined() && !mean.defined() && !square.defined()) return nullptr;
  require(step.defined() && mean.defined() && square.defined() &&
              step.numel() == 1 && step.scalar_type() == torch::kInt64,
          "[load_state] '", prefix,
          "' must have a step (one int64), a mean and a mean_square; was it "
          "another optimizer?");
  auto mine = std::make_unique<State>();
  mine->step(step.item<std::int64_t>());
  mine->exp_avg(mean.to(device, false, true));
  mine->exp_avg_sq(square.to(device, false, true));
  return mine;
}

}  // namespace

ParamList Adam::list(Params& p) { return list_adam(p); }
ParamList AdamW::list(Params& p) { return list_adam(p); }

Adam::Adam(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters) {
  make_engine<torch::optim::Adam>(options_of<torch::optim::AdamOptions>(params),
                                  params.decay_1d);
}

AdamW::AdamW(const Params& params, const NamedTensors& parameters)
    : Optimizer(parameters) {
  make_engine<torch::optim::AdamW>(
      options_of<torch::optim::AdamWOptions>(params), params.decay_1d);
}

NamedTensors Adam::save(const std::string& prefix,
                        const ParamState& state) const {
  return save_as<torch::optim::AdamParamState>(prefix, state);
}

NamedTensors AdamW::save(const std::string& prefix,
                         const ParamState& state) const {
  return save_as<torch::optim::AdamWParamState>(prefix, state);
}

auto Adam::load(const std::string& prefix, const NamedTensors& state,
                const torch::Device& device) const
    -> std::unique_ptr<ParamState> {
  return load_as<torch::optim::AdamParamState>(prefix, state, device);
}

auto AdamW::load(const std::string& prefix, const NamedTensors& state,
                 const torch::Device& device) const
    -> std::unique_ptr<ParamState> {
  return load_as<torch::optim::AdamWParamState>(prefix, state, device);
}

}  // namespace sluice
