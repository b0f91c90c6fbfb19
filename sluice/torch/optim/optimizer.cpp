#include "sluice/torch/optim/optimizer.h"

#include <set>

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::string prefix_of(const NamedTensor& parameter) {
  return parameter.name + "/";
}

}  // namespace

Optimizer::Optimizer(NamedTensors parameters, std::vector<Kept> kinds,
                     double weight_decay, bool decay_1d)
    : parameters_(std::move(parameters)),
      states_(parameters_.size()),
      kinds_(std::move(kinds)),
      weight_decay_(weight_decay),
      decay_1d_(decay_1d) {}

bool Optimizer::Lists::is_fused() const {
  return skip.defined() || !parameters[0].is_cpu();
}

Optimizer::Lists Optimizer::lists_of(bool decayed) {
  Lists lists;
  lists.kept.resize(kinds_.size());
  lists.weight_decay = decayed ? weight_decay_ : 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& p = parameters_[i].tensor;
    if ((decay_1d_ || p.dim() > 1) != decayed || !p.grad().defined()) continue;
    for (std::size_t k = states_[i].size(); k < kinds_.size(); ++k) {
      states_[i].push_back(kinds_[k].is_count ? torch::zeros({}, p.options())
                                              : torch::zeros_like(p));
    }
    lists.parameters.push_back(p);
    lists.gradients.push_back(p.grad());
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      lists.kept[k].push_back(states_[i][k]);
    }
  }
  return lists;
}

void Optimizer::step(double rate, const torch::Tensor& skip) {
  const torch::NoGradGuard no_gradients;
  for (const bool decayed : {true, false}) {
    Lists lists = lists_of(decayed);
    if (lists.parameters.empty()) continue;
    lists.skip = skip;
    update(lists, rate);
  }
}

void Optimizer::zero_gradients() {
  const auto gradients = gradients_of(parameters_);
  if (!gradients.empty()) at::_foreach_zero_(gradients);
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    for (std::size_t k = 0; k < states_[i].size(); ++k) {
      const torch::Tensor& kept = states_[i][k];
      all.push_back(
          {concat(prefix_of(parameters_[i]), kinds_[k].name),
           kinds_[k].is_count ? kept.to(torch::kInt64).cpu() : kept.clone()});
    }
  }
  return all;
}

Optimizer::State Optimizer::load(const std::string& prefix,
                                 const NamedTensors& state,
                                 const torch::Tensor& like) const {
  State found;
  bool none = true;
  bool whole = true;
  std::string wanted;
  for (const auto& [name, is_count] : kinds_) {
    const torch::Tensor t = find_tensor(state, concat(prefix, name));
    none = none && !t.defined();
    whole = whole && t.defined() &&
            (!is_count || (t.numel() == 1 && t.dtype() == torch::kInt64));
    const bool last = name == kinds_.back().name;
    wanted += concat(found.empty() ? "a " : (last ? " and a " : ", a "), name,
                     is_count ? " (one int64)" : "");
    found.push_back(t);
  }
  if (none) return {};
  require(whole, "[load_state] '", prefix, "' must have ", wanted,
          "; was it another optimizer?");
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const torch::Tensor t = found[k];
    const auto& [name, is_count] = kinds_[k];
    require(
        is_count || (t.sizes() == like.sizes() && t.dtype() == like.dtype()),
        "[load_state] '", prefix, name, "' must be ", like.sizes(), " of ",
        like.dtype(), " as its parameter is, got ", t.sizes(), " of ",
        t.dtype(), "; was it another model?");
    // In the parameter's memory format, which fused kernels ask for.
    found[k] =
        is_count ? torch::empty({}, like.options()) : torch::empty_like(like);
    found[k].copy_(is_count ? t.reshape({}) : t);
  }
  return found;
}

void Optimizer::load_state(const NamedTensors& state) {
  const torch::NoGradGuard no_gradients;
  std::vector<State> loaded;
  std::set<std::string> known;
  for (const NamedTensor& parameter : parameters_) {
    const std::string prefix = prefix_of(parameter);
    loaded.push_back(load(prefix, state, parameter.tensor.detach()));
    for (const Kept& kind : kinds_) known.insert(concat(prefix, kind.name));
  }
  for (const NamedTensor& item : state) {
    require(known.contains(item.name), "[load_state] '", item.name,
            "' must be the state of a parameter, but there is none such; was "
            "it another model or optimizer?");
  }
  states_ = std::move(loaded);
}

}  // namespace sluice
