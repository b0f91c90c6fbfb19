#include "sluice/torch/optim/optimizer.h"

#include <array>
#include <cmath>
#include <set>

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::string prefix_of(const NamedTensor& parameter) {
  return parameter.name + "/";
}

bool is_counter(const torch::Tensor& tensor) {
  return tensor.dim() == 0 && tensor.scalar_type() == torch::kInt64;
}

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
  const bool plain = gradient.is_cpu() && gradient.is_contiguous() &&
                     gradient.scalar_type() == torch::kFloat32;
  if (plain) {
    return sum_of_squares(
        std::span(gradient.const_data_ptr<float>(),
                  static_cast<std::size_t>(gradient.numel())));
  }
  const double norm = gradient.to(torch::kFloat64).norm().item<double>();
  return norm * norm;
}

}  // namespace

void Optimizer::step(double rate) {
  for (auto& group : engine_->param_groups()) group.options().set_lr(rate);
  engine_->step();
}

void Optimizer::zero_gradients() { engine_->zero_grad(false); }

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (const NamedTensor& parameter : parameters_) {
    const auto found =
        engine_->state().find(parameter.tensor.unsafeGetTensorImpl());
    if (found == engine_->state().end()) continue;
    for (NamedTensor& item : save(prefix_of(parameter), *found->second)) {
      if (item.tensor.defined()) {
        all.push_back({std::move(item.name), item.tensor.clone()});
      }
    }
  }
  return all;
}

void Optimizer::load_state(const NamedTensors& state) {
  std::vector<std::unique_ptr<ParamState>> loaded;
  std::set<std::string> known;
  for (const NamedTensor& parameter : parameters_) {
    const torch::Tensor& like = parameter.tensor;
    loaded.push_back(load(prefix_of(parameter), state, like.device()));
    if (loaded.back() == nullptr) continue;
    for (const auto& [name, t] : save(prefix_of(parameter), *loaded.back())) {
      known.insert(name);
      if (!t.defined() || is_counter(t)) continue;
      require(t.sizes() == like.sizes() && t.dtype() == like.dtype(),
              "[load_state] '", name, "' must be ", like.sizes(), " of ",
              like.dtype(), " as its parameter is, got ", t.sizes(), " of ",
              t.dtype(), "; was it another model?");
    }
  }
  for (const NamedTensor& item : state) {
    require(known.contains(item.name), "[load_state] '", item.name,
            "' must be the state of a parameter, but there is none such; was "
            "it another model or optimizer?");
  }
  engine_->state().clear();
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    if (loaded[i] == nullptr) continue;
    engine_->state()[parameters_[i].tensor.unsafeGetTensorImpl()] =
        std::move(loaded[i]);
  }
}

double gradient_norm(const NamedTensors& parameters) {
  double sum = 0;
  for (const NamedTensor& item : parameters) {
    const torch::Tensor& gradient = item.tensor.grad();
    if (gradient.defined()) sum += sum_of_squares(gradient);
  }
  return std::sqrt(sum);
}

double clip_gradients(const NamedTensors& parameters, double most) {
  require(most > 0, "[clip_gradients] the norm must be above 0, got ", most);
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm) || norm <= most) return norm;
  for (const NamedTensor& item : parameters) {
    torch::Tensor gradient = item.tensor.grad();
    if (gradient.defined()) gradient.mul_(most / norm);
  }
  return norm;
}

}  // namespace sluice
