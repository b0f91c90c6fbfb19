#include "sluice/torch/optim/clip.h"

#include <array>
#include <cmath>
#include <span>

#include "sluice/core/error.h"

namespace sluice {
namespace {

double sum_of_squares(std::span<const float> values) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const auto x = static_cast<double>(values[i + l]);
      lanes[l] += x * x;
    }
  }
  for (std::size_t l = 0; i < values.size(); ++i, ++l) {
    lanes[l] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double sum_of_squares(const torch::Tensor& gradient) {
  const bool plain = gradient.is_cpu() &&
                     gradient.is_non_overlapping_and_dense() &&
                     gradient.scalar_type() == torch::kFloat32;
  if (plain) {
    return sum_of_squares(
        std::span(gradient.const_data_ptr<float>(),
                  static_cast<std::size_t>(gradient.numel())));
  }
  const double norm = gradient.to(torch::kFloat64).norm().item<double>();
  return norm * norm;
}

void require_norm(double most) {
  require(most > 0, "[clip_gradients] the norm must be above 0, got ", most);
}

}  // namespace

std::vector<torch::Tensor> gradients_of(const NamedTensors& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const NamedTensor& item : parameters) {
    if (item.tensor.grad().defined()) gradients.push_back(item.tensor.grad());
  }
  return gradients;
}

double gradient_norm(const NamedTensors& parameters) {
  double sum = 0;
  for (const NamedTensor& item : parameters) {
    const torch::Tensor& gradient = item.tensor.grad();
    if (gradient.defined()) sum += sum_of_squares(gradient);
  }
  return std::sqrt(sum);
}

double tensor_norm(const torch::Tensor& tensor) {
  return std::sqrt(sum_of_squares(tensor));
}

double clip_gradients(const NamedTensors& parameters, double most) {
  require_norm(most);
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm) || norm <= most) return norm;
  for (const NamedTensor& item : parameters) {
    torch::Tensor gradient = item.tensor.grad();
    if (gradient.defined()) gradient.mul_(most / norm);
  }
  return norm;
}

void clip_on_device(const NamedTensors& parameters, double most) {
  require_norm(most);
  const torch::NoGradGuard no_gradients;
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  const torch::Tensor norm = at::stack(at::_foreach_norm(gradients)).norm();
  const torch::Tensor factor =
      at::where(norm.isfinite(), (most / norm).clamp_max(1), 1);
  at::_foreach_mul_(gradients, factor);
}

double clip_each(const std::vector<torch::Tensor>& gradients, double most) {
  require_norm(most);
  double largest = 0;
  for (torch::Tensor gradient : gradients) {
    const double norm = tensor_norm(gradient);
    if (std::isnan(norm) || norm > largest) largest = norm;
    if (std::isfinite(norm) && norm > most) gradient.mul_(most / norm);
  }
  return largest;
}

double clip_tensors(const NamedTensors& parameters, double most) {
  return clip_each(gradients_of(parameters), most);
}

void clip_each_on_device(const std::vector<torch::Tensor>& gradients,
                         double most) {
  require_norm(most);
  const torch::NoGradGuard no_gradients;
  if (gradients.empty()) return;
  const torch::Tensor norms = at::stack(at::_foreach_norm(gradients));
  const torch::Tensor factors =
      at::where(norms.isfinite(), (most / norms).clamp_max(1), 1);
  at::_foreach_mul_(gradients, factors.unbind());
}

void clip_tensors_on_device(const NamedTensors& parameters, double most) {
  clip_each_on_device(gradients_of(parameters), most);
}

torch::Tensor find_nonfinite(const NamedTensors& parameters) {
  const torch::NoGradGuard no_gradients;
  const auto gradients = gradients_of(parameters);
  const auto options = parameters[0].tensor.options().requires_grad(false);
  torch::Tensor found = torch::zeros({1}, options);
  if (gradients.empty()) return found;
  // Times 1, which changes nothing.
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found,
                                                 torch::ones({1}, options));
  return found;
}

}  // namespace sluice
