#include "sluice/comm/threads/threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = Communicator::Clock;

// The mailboxes of all pairs.
struct Hub {
  Hub(std::size_t ranks, const ThreadRankOptions& o)
      : size(ranks),
        options(o),
        boxes(ranks * ranks),
        posted(ranks, 0),
        stuck(ranks, false) {}

  std::deque<Bytes>& box(std::size_t from, std::size_t to) {
    return boxes[from * size + to];
  }

  std::size_t size;
  ThreadRankOptions options;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::deque<Bytes>> boxes;
  std::vector<std::uint64_t> posted;
  // Ranks that have looked for messages in vain since the last one was posted,
  // or are gone.
  std::vector<bool> stuck;
  std::vector<bool> gone = std::vector<bool>(size, false);
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<Hub> hub, std::size_t rank)
      : hub_(std::move(hub)), rank_(rank) {}
  ~ThreadRank() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->gone[rank_] = true;
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return hub_->size; }

 protected:
  void post(std::size_t peer, Bytes frame) override {
    {
      const std::lock_guard lock(hub_->mutex);
      const std::uint64_t number = hub_->posted[rank_]++;
      const ThreadRankOptions& o = hub_->options;
      const Fate fate = o.fault == nullptr
                            ? Fate::kDeliver
                            : o.fault(o.context, rank_, peer, number);
      if (fate == Fate::kDrop) return;
      if (fate == Fate::kCorrupt) frame.back() ^= std::byte{0x10};
      hub_->box(rank_, peer).push_back(std::move(frame));
      hub_->stuck.assign(hub_->size, false);
    }
    hub_->arrived.notify_all();
  }

  bool poll(std::size_t peer, Bytes& frame) override {
    const std::lock_guard lock(hub_->mutex);
    auto& box = hub_->box(peer, rank_);
    if (box.empty()) return false;
    frame = std::move(box.front());
    box.pop_front();
    return true;
  }

  void idle(Clock::time_point until) override {
    if (ManualClock* clock = hub_->options.clock) {
      wait_with(*clock, until);
      return;
    }
    std::unique_lock lock(hub_->mutex);
    hub_->arrived.wait_until(
        lock, std::min(until, Clock::now() + std::chrono::milliseconds(1)));
  }

  Clock::time_point now() const override {
    return hub_->options.clock != nullptr ? hub_->options.clock->now()
                                          : Clock::now();
  }

 private:
  void wait_with(ManualClock& clock, Clock::time_point until) {
    {
      const std::lock_guard lock(hub_->mutex);
      hub_->stuck[rank_] = true;
      bool all = true;
      for (std::size_t r = 0; r < hub_->size; ++r) {
        all = all && (hub_->stuck[r] || hub_->gone[r]);
      }
      if (all) {
        clock.move_to(until);
        hub_->stuck.assign(hub_->size, false);
        return;
      }
    }
    std::this_thread::yield();
  }

  std::shared_ptr<Hub> hub_;
  std::size_t rank_;
};

}  // namespace

Clock::time_point ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ManualClock::move_to(Clock::time_point when) {
  const std::lock_guard lock(mutex_);
  now_ = std::max(now_, when);
}

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size, const ThreadRankOptions& options) {
  require(size > 0, "[make_thread_ranks] there must be at least one rank");
  auto hub = std::make_shared<Hub>(size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::size_t r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<ThreadRank>(hub, r));
  }
  return ranks;
}

}  // namespace sluice
