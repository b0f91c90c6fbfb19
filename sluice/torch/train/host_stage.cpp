#include "sluice/torch/train/host_stage.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <optional>
#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {

HostStage::Fetch HostStage::make_fetch() {
  return [side = std::optional<c10::Stream>()](
             const torch::Tensor& gradient,
             torch::Tensor& host) mutable -> std::function<bool()> {
    if (gradient.is_cpu()) {
      host.copy_(gradient);
      return [] { return true; };
    }
    const c10::Device device = gradient.device();
    const c10::impl::VirtualGuardImpl streams(device.type());
    if (!side) side = streams.getStreamFromGlobalPool(device);
    c10::Event made(device.type());
    made.record(streams.getStream(device));
    side->wait(made);
    const c10::StreamGuard guard(*side);
    host.copy_(gradient, /*non_blocking=*/true);
    const auto done = std::make_shared<c10::Event>(device.type());
    done->record(*side);
    return [done] { return done->query(); };
  };
}

HostStage::HostStage(NamedTensors parameters, Ready ready,
                     std::chrono::nanoseconds timeout, Fetch fetch)
    : parameters_(std::move(parameters)),
      ready_(std::move(ready)),
      timeout_(timeout),
      fetch_(std::move(fetch)) {
  for (const NamedTensor& p : parameters_) {
    // Copies from a device overlap with nothing unless memory is pinned.
    host_.push_back(
        torch::empty(p.tensor.sizes(), torch::TensorOptions()
                                           .dtype(torch::kFloat32)
                                           .pinned_memory(!p.tensor.is_cpu())));
  }
  thread_ = std::thread([this] { run(); });
}

HostStage::~HostStage() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostStage::fetch(std::size_t i) {
  const torch::NoGradGuard no_gradients;
  Copy copy{i, fetch_(parameters_[i].tensor.grad(), host_[i])};
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
  changed_.notify_all();
}

// Asks again and again: waiting for an event of torch knows no deadline.
void HostStage::wait_for(const Copy& copy) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (!copy.done()) {
    if (stopping_ || std::chrono::steady_clock::now() > deadline) {
      const NamedTensor& p = parameters_[copy.index];
      throw std::runtime_error(
          concat("[train] the gradient of '", p.name,
                 "' must come from device ", p.tensor.device().str(),
                 " within ", std::chrono::duration<double>(timeout_).count(),
                 " s; does the device still work? --timeout allows for more"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void HostStage::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !copies_.empty(); });
    if (stopping_) return;
    const Copy& copy = copies_.front();  // stays where it is
    const bool sound = error_ == nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      if (sound) wait_for(copy);
      if (sound) ready_(copy.index, host_[copy.index]);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr) error_ = error;
    copies_.pop_front();
    changed_.notify_all();
  }
}

void HostStage::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return copies_.empty(); });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::size_t HostStage::memory_bytes() const {
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : host_) bytes += tensor.nbytes();
  return bytes;
}

void HostStage::put_back() {
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // The next fetch into this memory waits for the computation so far, and so
    // for this copy.
    parameters_[i].tensor.mutable_grad().copy_(host_[i], true);
  }
}

}  // namespace sluice
