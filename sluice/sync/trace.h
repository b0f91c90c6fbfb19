#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace sluice {

// What happened when, to be drawn as a timeline.
struct Span {
  std::string_view what;  // a literal: backward, select, encode, ...
  std::size_t bucket = 0;
  std::uint64_t step = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// Spans of several threads. Records only while it is on.
class Trace {
 public:
  void turn(bool on) { on_ = on; }
  bool on() const { return on_; }
  void clear() { spans_.clear(); }
  void add(const Span& span) {
    if (!on_) return;
    const std::lock_guard lock(mutex_);
    spans_.push_back(span);
  }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  bool on_ = false;
  std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace sluice
