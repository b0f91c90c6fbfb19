#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sluice {

// Sends this process a SIGTERM once the process that started it has ended, as
// mpirun or the daemon of it or of Slurm on this machine may be killed without
// a word; and ends it if it is still there after `patience`.
class ParentWatch {
 public:
  explicit ParentWatch(std::chrono::duration<double> patience);
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

  bool left_alone() const { return alone_; }

 private:
  void run();
  // Whether it is time to end the watch instead.
  bool pause(std::chrono::duration<double> duration);

  std::chrono::duration<double> patience_;
  int parent_;
  std::atomic<bool> alone_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sluice
