#pragma once

#include <c10/core/Event.h>

#include <chrono>
#include <optional>

#include "sluice/plan/profile.h"
#include "sluice/sparsify/exceptions.h"

namespace sluice {

// When the gradients of some steps were there: what profile.json says of a
// model.
//
// Marks are points in the queue of the device, so that nobody waits for it in a
// step, and of the clock on a CPU. Backward may make gradients in an order of
// its own; a profile has them in that of the tensors, each as late as the last
// of those that should have come before it.
class StepTimes {
 public:
  // Of `steps` steps, after some that are not looked at: devices search for
  // algorithms, and memory is new.
  StepTimes(std::vector<TensorInfo> tensors, const c10::Device& device,
            std::size_t steps);
  // Forgets what it has seen, and looks at so many steps again.
  void restart(std::size_t steps);

  // In every step, in this order. Whether it is looked at.
  bool begin();
  void begin_backward();
  void ready(std::size_t tensor);  // for every tensor, in any order
  void begin_update();
  void end();

  // Whether the step that began last is looked at.
  bool looking() const { return now_.has_value(); }
  // Whether there is enough to tell, or all that was asked for.
  bool complete() const { return steps_.size() >= kLeast; }
  bool done() const { return wanted_ > 0 && steps_.size() >= wanted_; }
  // Means over the steps, and how far apart their quartiles are. Waits for the
  // device.
  Profile profile() const;

 private:
  static constexpr std::size_t kIgnored = 5;
  static constexpr std::size_t kLeast = 3;

  struct Mark {
    std::chrono::steady_clock::time_point time;
    std::optional<c10::Event> event;

    double until(const Mark& later) const;
  };
  struct Step {
    Mark begin, backward, update, end;
    std::vector<std::optional<Mark>> ready;

    // Seconds of each tensor's part of backward, in forward order.
    std::vector<double> backward_seconds() const;
  };
  Mark mark() const;
  std::vector<const Step*> usual_steps() const;

  std::vector<TensorInfo> tensors_;
  c10::Device device_;
  std::size_t wanted_;
  std::size_t seen_ = 0;
  std::optional<Step> now_;
  std::vector<Step> steps_;
};

}  // namespace sluice
