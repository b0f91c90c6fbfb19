#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sluice/core/registry.h"
#include "sluice/torch/optim/clip.h"
#include "sluice/torch/tensors.h"

namespace sluice {

// Moves parameters against their gradients, many tensors per call of torch. The
// learning rate is an argument, the state one that checkpoints can hold.
//
// On the host it computes what torch::optim does, bit for bit. On a device it
// takes torch's fused kernels: one pass over memory, with other rounding.
class Optimizer {
 public:
  static constexpr std::string_view kKind = "optimizer";

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step. A parameter without a gradient stays as it is. Where `skip`, one
  // float on the parameters' device (see find_nonfinite), is not 0 there is no
  // step: the device sees to it, nobody waits for it.
  void step(double rate, const torch::Tensor& skip = {});

  // Sets gradients to 0 in place: what points at them stays valid.
  void zero_gradients();

  // What it keeps of each parameter, named "parameter/what"; copies. What it
  // has not needed yet is left out.
  NamedTensors state() const;

  // Goes on from such a state, bit for bit. Throws std::invalid_argument, and
  // keeps the old state, if it is not of this optimizer and these parameters.
  void load_state(const NamedTensors& state);

 protected:
  // A tensor that is kept of each parameter: of its shape, or a number of steps
  // (one float here, which fused kernels ask for; one int64 in a state).
  struct Kept {
    std::string_view name;
    bool is_count = false;
  };
  // Tensors that move together; the i-th of all lists belong to one parameter.
  struct Lists {
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> gradients;
    std::vector<std::vector<torch::Tensor>> kept;  // by kind, then parameter
    double weight_decay = 0;
    torch::Tensor skip;  // or undefined

    bool is_fused() const;
  };

  // Weight decay is `weight_decay`; parameters of one dimension (biases,
  // normalisation) have none unless `decay_1d`.
  Optimizer(NamedTensors parameters, std::vector<Kept> kinds,
            double weight_decay, bool decay_1d);

 private:
  using State = std::vector<torch::Tensor>;  // by kind; empty: not needed yet

  virtual void update(const Lists& lists, double rate) = 0;
  Lists lists_of(bool decayed);
  State load(const std::string& prefix, const NamedTensors& state,
             const torch::Tensor& parameter) const;

  NamedTensors parameters_;
  std::vector<State> states_;  // of each parameter
  std::vector<Kept> kinds_;
  double weight_decay_;
  bool decay_1d_;
};

using OptimizerEntry = RegistryEntry<Optimizer, const NamedTensors&>;

// Every optimizer there is.
std::span<const OptimizerEntry> optimizers();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. It shares
// memory with the parameters, whose names must differ.
std::unique_ptr<Optimizer> make_optimizer(std::string_view text,
                                          const NamedTensors& parameters);

}  // namespace sluice
