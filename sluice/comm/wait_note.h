#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace sluice {

// What the process waits for or has failed with, where a signal handler can
// read it: one of two texts is always whole. Of ranks that are threads, the
// last one's.
class WaitNote {
 public:
  // Whether anybody will read it; see report_waits_on_sigterm().
  bool wanted() const { return wanted_; }
  void want() { wanted_ = true; }
  void set(const std::string& what);
  // For a signal handler.
  const char* text() const { return text_[current_.load()]; }

 private:
  char text_[2][512] = {};
  std::atomic<int> current_{0};
  std::atomic<bool> wanted_{false};
  std::mutex mutex_;  // between writers
};

WaitNote& wait_note();

}  // namespace sluice
