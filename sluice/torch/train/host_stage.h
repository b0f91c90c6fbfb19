#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
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
  // Begins to copy a gradient of a device to host memory; the result tells
  // whether it is there, when asked.
  using Fetch = std::function<std::function<bool()>(
      const torch::Tensor& gradient, torch::Tensor& host)>;

  // A gradient that is not there `timeout` after the one before it is an error.
  HostStage(NamedTensors parameters, Ready ready,
            std::chrono::nanoseconds timeout, Fetch fetch = make_fetch());
  ~HostStage();
  HostStage(const HostStage&) = delete;
  HostStage& operator=(const HostStage&) = delete;

  // Begins to fetch a gradient, once the computation so far enqueued has made
  // it.
  void fetch(std::size_t i);
  // Waits until all that were fetched are ready. Throws what went wrong, and
  // then none that was fetched after it is ready.
  void drain();
  // Copies what is in host memory over the gradients; the computation enqueued
  // from now on sees it.
  void put_back();

  std::size_t memory_bytes() const;

 private:
  struct Copy {
    std::size_t index;
    std::function<bool()> done;
  };
  // By torch's own copy, on a stream beside the computation.
  static Fetch make_fetch();
  void run();
  void wait_for(const Copy& copy) const;

  NamedTensors parameters_;
  Ready ready_;
  std::chrono::nanoseconds timeout_;
  Fetch fetch_;
  std::vector<torch::Tensor> host_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Copy> copies_;  // under way; the first is being waited for
  std::atomic<bool> stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace sluice
