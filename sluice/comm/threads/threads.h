#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sluice/comm/communicator.h"

namespace sluice {

// A clock that stands still while anybody has something to do: when all ranks
// wait for messages that nobody will send, it jumps to their deadline. So no
// test of a timeout sleeps, and none fails because a machine is slow.
class ManualClock {
 public:
  Communicator::Clock::time_point now() const;
  void move_to(Communicator::Clock::time_point when);

 private:
  mutable std::mutex mutex_;
  Communicator::Clock::time_point now_{};
};

// What happens to a message on its way, for tests of faults: the number counts
// the messages that a rank has posted.
enum class Fate : std::uint8_t { kDeliver, kDrop, kCorrupt };
using Fault = Fate (*)(void* context, std::size_t from, std::size_t to,
                       std::uint64_t number);

struct ThreadRankOptions {
  ManualClock* clock = nullptr;  // null: the real one
  Fault fault = nullptr;
  void* context = nullptr;
};

// Ranks as threads of one process: the test bed of every collective. The
// communicators share their memory; each is used by one thread. A rank that has
// been destroyed counts as one that never calls again.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size, const ThreadRankOptions& options = {});

}  // namespace sluice
