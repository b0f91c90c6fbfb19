#include "sluice/torch/train/host_stage.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <optional>

namespace sluice {

struct HostStage::Copy {
  std::size_t index;
  std::optional<c10::Event> done;  // none: it is done
};

HostStage::HostStage(NamedTensors parameters, Ready ready)
    : parameters_(std::move(parameters)), ready_(std::move(ready)) {
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
  const torch::Tensor& gradient = parameters_[i].tensor.grad();
  Copy copy{i, std::nullopt};
  if (gradient.is_cpu()) {
    host_[i].copy_(gradient);
  } else {
    const c10::Device device = gradient.device();
    const c10::impl::VirtualGuardImpl streams(device.type());
    if (!side_) side_ = streams.getStreamFromGlobalPool(device);
    c10::Event made(device.type());
    made.record(streams.getStream(device));
    side_->wait(made);
    const c10::StreamGuard guard(*side_);
    host_[i].copy_(gradient, /*non_blocking=*/true);
    copy.done.emplace(device.type());
    copy.done->record(*side_);
  }
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
  changed_.notify_all();
}

void HostStage::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !copies_.empty(); });
    if (stopping_) return;
    const Copy& copy = copies_.front();  // stays where it is
    lock.unlock();
    try {
      while (copy.done && !copy.done->query()) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      ready_(copy.index, host_[copy.index]);
    } catch (...) {
      lock.lock();
      error_ = std::current_exception();
      lock.unlock();
    }
    lock.lock();
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
