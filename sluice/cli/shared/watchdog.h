#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice {

// Calls `late`, on a thread of its own, unless the watchdog is destroyed within
// `limit`: for calls into libraries that know no deadline.
class Watchdog {
 public:
  Watchdog(std::chrono::duration<double> limit, std::function<void()> late);

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace sluice
