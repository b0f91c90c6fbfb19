#include "sluice/comm/threads/threads.h"

#include <algorithm>
#include <condition_variable>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = Engine::Clock;

// A rank as the others see it.
struct Seat {
  std::condition_variable wake;
  std::uint64_t posted = 0;   // frames it has sent
  std::uint64_t arrived = 0;  // frames sent to it
  bool gone = false;
  bool waits = false;  // with the manual clock, until `until`
  Clock::time_point until{};

  // Something has arrived, or a rank has gone.
  void wake_up() {
    ++arrived;
    waits = false;
    wake.notify_one();
  }
};

// The mailboxes of all pairs.
struct Hub {
  Hub(std::size_t ranks, const ThreadRankOptions& o)
      : size(ranks), options(o), boxes(ranks * ranks), seats(ranks) {}

  Fifo<Frame>& box(std::size_t from, std::size_t to) {
    return boxes[from * size + to];
  }

  // If nobody has anything to do, it is as late as the first one waits for.
  void move_clock() {
    auto first = Clock::time_point::max();
    for (const Seat& seat : seats) {
      if (!seat.waits && !seat.gone) return;
      if (seat.waits) first = std::min(first, seat.until);
    }
    if (first == Clock::time_point::max()) return;
    options.clock->move_to(first);
    for (Seat& seat : seats) {
      if (!seat.waits || seat.until > first) continue;
      seat.waits = false;
      seat.wake.notify_one();
    }
  }

  std::size_t size;
  ThreadRankOptions options;
  std::mutex mutex;
  std::vector<Fifo<Frame>> boxes;
  std::vector<Seat> seats;
};

class ThreadEngine final : public Engine {
 public:
  ThreadEngine(std::shared_ptr<Hub> hub, std::size_t rank)
      : hub_(std::move(hub)), rank_(rank) {}
  ~ThreadEngine() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->seats[rank_].gone = true;
    if (hub_->options.closes) {
      for (Seat& seat : hub_->seats) seat.wake_up();
    }
    if (hub_->options.clock != nullptr) hub_->move_clock();
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return hub_->size; }

  void post(std::size_t peer, const Frame& frame) override {
    const std::lock_guard lock(hub_->mutex);
    const std::uint64_t number = hub_->seats[rank_].posted++;
    const ThreadRankOptions& o = hub_->options;
    const Fate fate = o.fault == nullptr
                          ? Fate::kDeliver
                          : o.fault(o.context, rank_, peer, number);
    if (fate == Fate::kDrop) return;
    hub_->box(rank_, peer)
        .push(fate == Fate::kCorrupt ? damaged(frame) : frame);
    hub_->seats[peer].wake_up();
  }

  bool poll(std::size_t peer, Frame& frame) override {
    const std::lock_guard lock(hub_->mutex);
    auto& box = hub_->box(peer, rank_);
    if (box.empty()) return false;
    frame = box.pop();
    return true;
  }

  bool closed(std::size_t peer) const override {
    const std::lock_guard lock(hub_->mutex);
    return hub_->options.closes && hub_->seats[peer].gone &&
           hub_->box(peer, rank_).empty();
  }

  // Returns at once if anything has arrived since it last returned: the caller
  // may have looked too early.
  void idle(Clock::time_point until) override {
    std::unique_lock lock(hub_->mutex);
    Seat& seat = hub_->seats[rank_];
    if (seat.arrived == seen_) {
      if (hub_->options.clock == nullptr) {
        seat.wake.wait_until(lock, until,
                             [&] { return seat.arrived != seen_; });
      } else if (hub_->options.clock->now() < until) {
        seat.waits = true;
        seat.until = until;
        hub_->move_clock();
        seat.wake.wait(lock, [&] { return !seat.waits; });
      }
    }
    seen_ = seat.arrived;
  }

  Clock::time_point now() const override {
    return hub_->options.clock != nullptr ? hub_->options.clock->now()
                                          : Clock::now();
  }

 private:
  // A copy: others may hold the same frame.
  Frame damaged(const Frame& frame) {
    Frame copy = pool_.get(frame.payload().size());
    std::copy(frame.bytes().begin(), frame.bytes().end(), copy.bytes().begin());
    copy.bytes()[copy.bytes().size() / 2] ^= std::byte{0x10};
    return copy;
  }

  std::shared_ptr<Hub> hub_;
  FramePool pool_;
  std::size_t rank_;
  std::uint64_t seen_ = 0;
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

std::vector<std::unique_ptr<Engine>> make_thread_engines(
    std::size_t size, const ThreadRankOptions& options) {
  require(size > 0, "[make_thread_engines] there must be at least one rank");
  auto hub = std::make_shared<Hub>(size, options);
  std::vector<std::unique_ptr<Engine>> ranks;
  for (std::size_t r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<ThreadEngine>(hub, r));
  }
  return ranks;
}

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size, const ThreadRankOptions& options) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& engine : make_thread_engines(size, options)) {
    ranks.push_back(std::make_unique<Communicator>(std::move(engine)));
  }
  return ranks;
}

}  // namespace sluice
