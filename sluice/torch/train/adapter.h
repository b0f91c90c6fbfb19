#pragma once

#include <functional>

#include "sluice/sync/gradient_sync.h"
#include "sluice/torch/train/host_stage.h"

namespace sluice {

// Hands gradients to a GradientSync as backward makes them, by hooks on torch's
// accumulators; the i-th parameter is the i-th tensor of the sync.
//
// Parameters are fp32 without gaps, in any order of dimensions. The sync's
// backend reads gradients where they are, behind an event of torch's stream
// where that is a GPU's; with `stage` they go through host memory, each within
// `timeout`. Both must outlive it.
class AutogradAdapter {
 public:
  AutogradAdapter(GradientSync& sync, NamedTensors parameters,
                  bool stage = false,
                  std::chrono::nanoseconds timeout = std::chrono::seconds(60));
  // For one rank that sends everything: nothing is exchanged, and gradients
  // stay where backward left them.
  explicit AutogradAdapter(NamedTensors parameters);
  ~AutogradAdapter();
  AutogradAdapter(const AutogradAdapter&) = delete;
  AutogradAdapter& operator=(const AutogradAdapter&) = delete;

  // Calls `seen` as soon as the last backward of a step has made a gradient; an
  // empty function ends that.
  void watch(std::function<void(std::size_t)> seen);

  // Forgets all gradients: before the first backward of a step.
  void clear();
  // Before the last backward of a step: what it completes is exchanged at once,
  // or `held` until finish(), so that nothing runs beside it.
  void begin(bool held = false) {
    last_ = true;
    held_ = held;
  }
  // After it. Announces what backward did not, zeros where there is no
  // gradient, and waits; gradients are then the mean over the ranks. Without a
  // sync nothing is waited for or looked at.
  SyncReport finish();

  // Of host memory that gradients are staged in.
  std::size_t memory_bytes() const {
    return stage_ != nullptr ? stage_->memory_bytes() : 0;
  }

 private:
  struct Hook;
  void add_hooks();
  void remove_hooks();
  void announce(std::size_t i);

  GradientSync* sync_ = nullptr;  // or null
  NamedTensors parameters_;
  std::vector<bool> announced_;
  std::unique_ptr<HostStage> stage_;  // or null
  std::function<void(std::size_t)> seen_;
  bool last_ = false;  // backward of the step
  bool held_ = false;
};

}  // namespace sluice
