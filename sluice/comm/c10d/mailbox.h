#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "sluice/comm/engine.h"

namespace sluice {

// Frames that threads have received, by sender, for the one that asks.
class Mailbox {
 public:
  explicit Mailbox(std::size_t peers)
      : boxes_(peers), closed_(peers, false), told_(peers, false) {}

  void put(std::size_t peer, Frame frame) {
    const std::lock_guard lock(mutex_);
    boxes_[peer].push(std::move(frame));
    ++arrived_;
    wake_.notify_one();
  }

  bool take(std::size_t peer, Frame& frame) {
    const std::lock_guard lock(mutex_);
    if (boxes_[peer].empty()) return false;
    frame = boxes_[peer].pop();
    return true;
  }

  // Says that nothing comes from the peer any more.
  void close(std::size_t peer) {
    const std::lock_guard lock(mutex_);
    closed_[peer] = true;
    ++arrived_;
    wake_.notify_one();
  }

  // Says that the peer knows that this rank leaves, or is gone itself.
  void tell(std::size_t peer) {
    const std::lock_guard lock(mutex_);
    told_[peer] = true;
    wake_.notify_one();
  }

  // Waits until all peers of the rank know that, or for so long.
  void wait_until_told(std::size_t rank, Engine::Clock::duration most) {
    std::unique_lock lock(mutex_);
    told_[rank] = true;
    wake_.wait_for(lock, most, [&] {
      return std::find(told_.begin(), told_.end(), false) == told_.end();
    });
  }

  // Whether the peer's box is closed, and empty.
  bool closed(std::size_t peer) const {
    const std::lock_guard lock(mutex_);
    return closed_[peer] && boxes_[peer].empty();
  }

  // Returns at once if anything has arrived since it last returned: the caller
  // may have looked too early.
  void wait(Engine::Clock::time_point until) {
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, until, [&] { return arrived_ != seen_; });
    seen_ = arrived_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Fifo<Frame>> boxes_;
  std::vector<bool> closed_;
  std::vector<bool> told_;
  std::uint64_t arrived_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace sluice
