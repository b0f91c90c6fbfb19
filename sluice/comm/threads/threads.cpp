#include "sluice/comm/threads/threads.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "sluice/core/error.h"

namespace sluice {
namespace {

struct Arrival {
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::vector<std::byte> bytes;
};

// One meeting of all ranks after another.
struct Hub {
  explicit Hub(std::size_t size) : arrivals(size) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Arrival>> arrivals;
  std::size_t arrived = 0;
  std::size_t left = 0;  // ranks that have copied the current meeting
  std::optional<CommError> failure;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<Hub> hub, std::size_t rank,
             std::chrono::milliseconds deadline)
      : hub_(std::move(hub)), rank_(rank), deadline_(deadline) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return hub_->arrivals.size(); }

  void all_gather(std::span<const std::byte> mine, std::uint64_t step,
                  std::uint32_t phase,
                  std::vector<std::vector<std::byte>>& all) override {
    const auto until = std::chrono::steady_clock::now() + deadline_;
    std::unique_lock lock(hub_->mutex);
    // The last meeting may not be over for everyone.
    wait(lock, until, step, [&] { return !hub_->arrivals[rank_].has_value(); });
    hub_->arrivals[rank_] = {step, phase, {mine.begin(), mine.end()}};
    ++hub_->arrived;
    hub_->changed.notify_all();
    wait(lock, until, step, [&] { return hub_->arrived == size(); });
    check_same(step, phase);
    all.resize(size());
    for (std::size_t r = 0; r < size(); ++r) {
      all[r].assign(hub_->arrivals[r]->bytes.begin(),
                    hub_->arrivals[r]->bytes.end());
    }
    if (++hub_->left == size()) {
      for (auto& arrival : hub_->arrivals) arrival.reset();
      hub_->arrived = hub_->left = 0;
      hub_->changed.notify_all();
    }
  }

 private:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock,
            std::chrono::steady_clock::time_point until, std::uint64_t step,
            Done&& done) {
    const auto ready = [&] { return hub_->failure.has_value() || done(); };
    if (!hub_->changed.wait_until(lock, until, ready)) {
      std::size_t missing = rank_;
      for (std::size_t r = size(); r-- > 0;) {
        if (!hub_->arrivals[r].has_value()) missing = r;
      }
      fail(concat("[all_gather] rank ", rank_, " heard nothing from rank ",
                  missing, " for ", deadline_.count(), " ms in step ", step,
                  "; is it still running?"),
           missing);
    }
    if (hub_->failure.has_value()) throw CommError(*hub_->failure);
  }
  void check_same(std::uint64_t step, std::uint32_t phase) {
    for (std::size_t r = 0; r < size(); ++r) {
      const Arrival& other = *hub_->arrivals[r];
      if (other.step == step && other.phase == phase) continue;
      fail(concat("[all_gather] all ranks must be in the same step and phase, "
                  "rank ",
                  rank_, " is in ", step, "/", phase, " and rank ", r, " in ",
                  other.step, "/", other.phase),
           r);
    }
  }
  [[noreturn]] void fail(const std::string& message, std::size_t peer) {
    hub_->failure.emplace(message, rank_, peer);
    hub_->changed.notify_all();
    throw CommError(*hub_->failure);
  }

  std::shared_ptr<Hub> hub_;
  std::size_t rank_;
  std::chrono::milliseconds deadline_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size, std::chrono::milliseconds deadline) {
  require(size > 0, "[make_thread_ranks] there must be at least one rank");
  auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::size_t r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<ThreadRank>(hub, r, deadline));
  }
  return ranks;
}

}  // namespace sluice
