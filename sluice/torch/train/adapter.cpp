#include "sluice/torch/train/adapter.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace sluice {

struct AutogradAdapter::Hook final
    : public torch::autograd::PostAccumulateGradHook {
  Hook(AutogradAdapter& o, std::size_t i) : owner(o), index(i) {}
  void operator()(const torch::autograd::Variable&) override {
    if (!owner.last_) return;
    if (!owner.held_) owner.announce(index);
    if (owner.seen_) owner.seen_(index);
  }

  AutogradAdapter& owner;
  std::size_t index;
};

AutogradAdapter::AutogradAdapter(GradientSync& sync, NamedTensors parameters,
                                 bool stage, std::chrono::nanoseconds timeout)
    : sync_(&sync),
      parameters_(std::move(parameters)),
      announced_(parameters_.size(), false) {
  if (stage) {
    stage_ = std::make_unique<HostStage>(
        parameters_,
        [this](std::size_t i, const torch::Tensor& gradient) {
          sync_->ready(i, view_of(gradient));
        },
        timeout);
  }
  add_hooks();
}

AutogradAdapter::AutogradAdapter(NamedTensors parameters)
    : parameters_(std::move(parameters)),
      announced_(parameters_.size(), false) {}

AutogradAdapter::~AutogradAdapter() {
  if (sync_ != nullptr || seen_) remove_hooks();
}

void AutogradAdapter::add_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters_[i].tensor, std::make_unique<Hook>(*this, i));
  }
}

void AutogradAdapter::remove_hooks() {
  for (const NamedTensor& p : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(p.tensor, nullptr);
  }
}

void AutogradAdapter::watch(std::function<void(std::size_t)> seen) {
  const bool watched = seen_ != nullptr;
  seen_ = std::move(seen);
  if (sync_ != nullptr || watched == (seen_ != nullptr)) return;
  if (seen_) {
    add_hooks();
  } else {
    remove_hooks();
  }
}

void AutogradAdapter::clear() {
  // Undefined rather than zero: backward then hands its result over instead of
  // adding it to zeros.
  for (const NamedTensor& p : parameters_) p.tensor.mutable_grad().reset();
  announced_.assign(parameters_.size(), false);
  last_ = false;
}

SyncReport AutogradAdapter::finish() {
  last_ = false;
  // In the order in which buckets usually wait for them.
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (!announced_[i]) announce(i);
  }
  if (sync_ == nullptr) {
    SyncReport report;
    report.committed = true;
    report.dense_elements =
        static_cast<std::uint64_t>(count_elements(parameters_));
    return report;
  }
  if (stage_ == nullptr) return sync_->finish();
  stage_->drain();
  const SyncReport report = sync_->finish();
  stage_->put_back();
  return report;
}

void AutogradAdapter::announce(std::size_t i) {
  const torch::Tensor& parameter = parameters_[i].tensor;
  torch::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined()) gradient = torch::zeros_like(parameter);
  announced_[i] = true;
  if (stage_ != nullptr) {
    stage_->fetch(i);
  } else if (sync_ != nullptr) {
    sync_->ready(i, view_of(gradient), event_after(gradient));
  }
}

}  // namespace sluice
