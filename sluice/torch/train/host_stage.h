#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "sluice/torch/tensors.h"

namespace sluice {

// Takes gradients from a device to host memory and back, for what works on host
// memory only. Copies run beside the computation, on a stream of their own.
//
// Parameters of the host's own memory may be staged too: then nothing runs
// beside anything, but all else is the same.
class HostStage {
 public:
  // `ready(i, gradient)` is called, on the stage's thread and in the order of
  // the fetches, once the i-th parameter's gradient is in host memory, where it
  // may be changed until put_back().
  using Ready = std::function<void(std::size_t, const torch::Tensor&)>;

  HostStage(NamedTensors parameters, Ready ready);
  ~HostStage();
  HostStage(const HostStage&) = delete;
  HostStage& operator=(const HostStage&) = delete;

  // Begins to fetch a gradient, once the computation so far enqueued has made
  // it.
  void fetch(std::size_t i);
  // Waits until all that were fetched are ready. Throws what went wrong.
  void drain();
  // Copies what is in host memory over the gradients; the computation enqueued
  // from now on sees it.
  void put_back();

  std::size_t memory_bytes() const;

 private:
  struct Copy;
  void run();

  NamedTensors parameters_;
  Ready ready_;
  std::vector<torch::Tensor> host_;
  std::optional<c10::Stream> side_;  // of the copies from a device

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Copy> copies_;  // under way; the first is being waited for
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sluice
