#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sluice/core/registry.h"
#include "sluice/torch/tensors.h"

namespace sluice {

// Moves parameters against their gradients: torch::optim by name, with the
// learning rate as an argument and a state that checkpoints can hold.
class Optimizer {
 public:
  static constexpr std::string_view kKind = "optimizer";

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step. A parameter without a gradient stays as it is.
  void step(double rate);

  // Sets gradients to 0 in place: what points at them stays valid.
  void zero_gradients();

  // What it keeps of each parameter, named "parameter/what"; copies. What it
  // has not needed yet is left out.
  NamedTensors state() const;

  // Goes on from such a state, bit for bit. Throws std::invalid_argument, and
  // keeps the old state, if it is not of this optimizer and these parameters.
  void load_state(const NamedTensors& state);

 protected:
  using ParamState = torch::optim::OptimizerParamState;

  explicit Optimizer(NamedTensors parameters)
      : parameters_(std::move(parameters)) {}

  // torch's optimizer over all parameters, with `options`; parameters of one
  // dimension (biases, normalisation) in a group without weight decay unless
  // `decay_1d`.
  template <class Engine, class Options>
  void make_engine(const Options& options, bool decay_1d);

 private:
  // A parameter's state as tensors named "`prefix`what", and back, copied to
  // `device`; null if there is none in `state`.
  virtual NamedTensors save(const std::string& prefix,
                            const ParamState& state) const = 0;
  virtual std::unique_ptr<ParamState> load(
      const std::string& prefix, const NamedTensors& state,
      const torch::Device& device) const = 0;

  NamedTensors parameters_;
  std::unique_ptr<torch::optim::Optimizer> engine_;
};

template <class Engine, class Options>
void Optimizer::make_engine(const Options& options, bool decay_1d) {
  Options without_decay = options;
  without_decay.weight_decay(0);
  std::vector<torch::Tensor> decayed;
  std::vector<torch::Tensor> others;
  for (const NamedTensor& item : parameters_) {
    (decay_1d || item.tensor.dim() > 1 ? decayed : others)
        .push_back(item.tensor);
  }
  auto engine = std::make_unique<Engine>(decayed, options);
  if (!others.empty()) {
    engine->add_param_group(torch::optim::OptimizerParamGroup(others));
    // Set afterwards: some versions of torch take a 0 in a new group's options
    // for "not given".
    static_cast<Options&>(engine->param_groups().back().options()) =
        without_decay;
  }
  engine_ = std::move(engine);
}

using OptimizerEntry = RegistryEntry<Optimizer, const NamedTensors&>;

// Every optimizer there is.
std::span<const OptimizerEntry> optimizers();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. It shares
// memory with the parameters, whose names must differ.
std::unique_ptr<Optimizer> make_optimizer(std::string_view text,
                                          const NamedTensors& parameters);

// The L2 norm of all gradients together.
//
// For gradients in host memory the sum runs in one order whatever the number
// of threads, so ranks with equal gradients get equal bits.
double gradient_norm(const NamedTensors& parameters);

// Scales all gradients so that their norm is `most` if it is above; returns the
// norm they had. A norm that is not finite scales nothing. Throws
// std::invalid_argument unless `most` is above 0.
double clip_gradients(const NamedTensors& parameters, double most);

}  // namespace sluice
