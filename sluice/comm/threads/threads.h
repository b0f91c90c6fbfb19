#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sluice/comm/communicator.h"

namespace sluice {

// A clock that stands still while anybody has something to do: when all ranks
// wait for messages that nobody will send, it jumps to what the first of them
// waits for. So no test of a timeout sleeps, none fails because a machine is
// slow, and an emulated network becomes a simulated one.
class ManualClock {
 public:
  Engine::Clock::time_point now() const;
  void move_to(Engine::Clock::time_point when);

 private:
  mutable std::mutex mutex_;
  Engine::Clock::time_point now_{};
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
  // A rank that is destroyed is closed() at once, as a process that ends; else
  // it is silent, as a host that loses its network.
  bool closes = false;
};

// Ranks as threads of one process: the test bed of every collective. The
// engines share their memory; each is used by one thread. A rank that has been
// destroyed counts as one that never calls again.
std::vector<std::unique_ptr<Engine>> make_thread_engines(
    std::size_t size, const ThreadRankOptions& options = {});

// The same, ready to use.
std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    std::size_t size, const ThreadRankOptions& options = {});

}  // namespace sluice
