#include "sluice/torch/step_times.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>

#include "sluice/core/view.h"

namespace sluice {
namespace {

struct Summed {
  double mean = 0;
  double spread = 0;
};

// Means, since those of all tensors together are to be that of the whole pass;
// medians of parts add up to less.
Summed sum_up(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  return {std::accumulate(seconds.begin(), seconds.end(), 0.0) /
              static_cast<double>(n),
          seconds[n - 1 - n / 4] - seconds[n / 4]};
}

}  // namespace

StepTimes::StepTimes(std::vector<TensorInfo> tensors, const c10::Device& device,
                     std::size_t steps)
    : tensors_(std::move(tensors)), device_(device), wanted_(steps) {}

void StepTimes::restart(std::size_t steps) {
  steps_.clear();
  now_.reset();
  wanted_ = steps;
  seen_ = 0;
}

StepTimes::Mark StepTimes::mark() const {
  Mark out{std::chrono::steady_clock::now(), std::nullopt};
  if (device_.is_cpu()) return out;
  out.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  out.event->record(
      c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return out;
}

double StepTimes::Mark::until(const Mark& later) const {
  if (event) return 1e-3 * event->elapsedTime(*later.event);
  return std::chrono::duration<double>(later.time - time).count();
}

bool StepTimes::begin() {
  if (steps_.size() >= wanted_ || seen_++ < kIgnored) return false;
  now_.emplace();
  now_->begin = mark();
  now_->ready.resize(tensors_.size());
  return true;
}

void StepTimes::begin_backward() {
  if (now_) now_->backward = mark();
}

void StepTimes::ready(std::size_t tensor) {
  if (now_) now_->ready[tensor] = mark();
}

void StepTimes::begin_update() {
  if (now_) now_->update = mark();
}

void StepTimes::end() {
  if (!now_) return;
  now_->end = mark();
  const auto& ready = now_->ready;
  // Of a tensor without a gradient nobody hears in time.
  if (std::all_of(ready.begin(), ready.end(),
                  [](const auto& m) { return m.has_value(); })) {
    steps_.push_back(std::move(*now_));
  }
  now_.reset();
}

std::vector<double> StepTimes::Step::backward_seconds() const {
  std::vector<double> out(ready.size());
  double latest = 0;
  for (std::size_t i = ready.size(); i-- > 0;) {
    const double at = std::max(latest, backward.until(*ready[i]));
    out[i] = at - latest;
    latest = at;
  }
  return out;
}

// Without the slowest tenth: something else had the machine.
std::vector<const StepTimes::Step*> StepTimes::usual_steps() const {
  if (!steps_.empty() && steps_.back().end.event) {
    steps_.back().end.event->synchronize();
  }
  std::vector<const Step*> steps;
  for (const Step& step : steps_) steps.push_back(&step);
  std::sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) {
    return a->begin.until(a->end) < b->begin.until(b->end);
  });
  steps.resize(steps.size() - steps.size() / 10);
  return steps;
}

Profile StepTimes::profile() const {
  const std::vector<const Step*> steps = usual_steps();
  const auto over_steps = [&](auto&& seconds_of) {
    std::vector<double> seconds;
    for (const Step* step : steps) seconds.push_back(seconds_of(*step));
    return sum_up(std::move(seconds));
  };
  Profile out;
  out.forward =
      over_steps([](const Step& s) { return s.begin.until(s.backward); }).mean;
  out.update =
      over_steps([](const Step& s) { return s.update.until(s.end); }).mean;
  std::vector<std::vector<double>> parts;
  for (const Step* step : steps) parts.push_back(step->backward_seconds());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<double> seconds;
    for (const auto& part : parts) seconds.push_back(part[i]);
    const Summed summed = sum_up(std::move(seconds));
    TensorProfile t;
    t.name = tensors_[i].name;
    t.elements = shape3(tensors_[i].dims).size();
    t.shape = tensors_[i].dims;
    t.backward = summed.mean;
    t.spread = summed.spread;
    out.tensors.push_back(std::move(t));
  }
  return out;
}

}  // namespace sluice
