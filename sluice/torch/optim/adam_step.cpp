#include "sluice/torch/optim/adam_step.h"

#include <cmath>

namespace sluice {
namespace {

using TensorVector = std::vector<torch::Tensor>;

void move_by_lists(const AdamTensors& t, const AdamStep& step) {
  TensorVector d = t.gradients;
  if (step.weight_decay != 0 && step.decoupled) {
    at::_foreach_mul_(t.parameters, 1 - step.rate * step.weight_decay);
  } else if (step.weight_decay != 0) {
    d = at::_foreach_add(d, t.parameters, step.weight_decay);
  }
  at::_foreach_mul_(t.mean, step.beta1);
  at::_foreach_add_(t.mean, d, 1 - step.beta1);
  at::_foreach_mul_(t.mean_square, step.beta2);
  at::_foreach_addcmul_(t.mean_square, d, d, 1 - step.beta2);
  TensorVector root = at::_foreach_sqrt(t.mean_square);
  std::vector<at::Scalar> rates(t.parameters.size(), -step.rate);
  if (!t.count.empty()) {
    std::vector<at::Scalar> roots;
    rates.clear();
    for (const torch::Tensor& c : t.count) {
      const auto steps = c.item<double>();
      roots.emplace_back(std::sqrt(1 - std::pow(step.beta2, steps)));
      rates.emplace_back(-step.rate / (1 - std::pow(step.beta1, steps)));
    }
    at::_foreach_div_(root, roots);
  }
  at::_foreach_add_(root, step.epsilon);
  at::_foreach_addcdiv_(t.parameters, t.mean, root, rates);
}

// After so many steps nothing is left to correct: a float of beta to that power
// is 0.
TensorVector endless_count(const AdamTensors& t) {
  constexpr double kEndless = 1e9;
  const auto options = t.parameters[0].options().requires_grad(false);
  return TensorVector(t.parameters.size(), torch::full({}, kEndless, options));
}

void move_fused(const AdamTensors& t, const AdamStep& step) {
  const TensorVector count = t.count.empty() ? endless_count(t) : t.count;
  const auto skip = t.skip.defined() ? std::optional(t.skip) : std::nullopt;
  if (step.decoupled) {
    at::_fused_adamw_(t.parameters, t.gradients, t.mean, t.mean_square, {},
                      count, step.rate, step.beta1, step.beta2,
                      step.weight_decay, step.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false, {}, skip);
  } else {
    at::_fused_adam_(t.parameters, t.gradients, t.mean, t.mean_square, {},
                     count, step.rate, step.beta1, step.beta2,
                     step.weight_decay, step.epsilon, /*amsgrad=*/false,
                     /*maximize=*/false, {}, skip);
  }
}

}  // namespace

void move_by_adam(const AdamTensors& t, const AdamStep& step) {
  if (!t.count.empty()) at::_foreach_add_(t.count, 1);
  if (!t.skip.defined() && t.parameters[0].is_cpu()) {
    move_by_lists(t, step);
    return;
  }
  move_fused(t, step);
  if (t.count.empty() || !t.skip.defined()) return;
  // A step that is skipped does not count.
  at::_foreach_sub_(t.count, TensorVector(t.count.size(), t.skip.reshape({})));
}

}  // namespace sluice
