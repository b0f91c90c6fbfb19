#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/comm/threads/threads.h"

namespace sluice::testing {

// Runs f(rank) on a thread per rank; what it throws is a failure. A rank that
// returns is gone, as far as a manual clock is concerned.
inline void run_ranks(std::vector<std::unique_ptr<Communicator>>& ranks,
                      const std::function<void(std::size_t)>& f) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        f(r);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
      ranks[r].reset();
    });
  }
  for (std::thread& t : threads) t.join();
}

// One message on its way that is lost or damaged.
struct Injection {
  Injection(std::size_t sender, std::uint64_t which, Fate what)
      : from(sender), number(which), fate(what) {}

  ThreadRankOptions options(ManualClock& clock) {
    return {&clock, &Injection::decide, this};
  }

  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t number) {
    auto& self = *static_cast<Injection*>(context);
    if (from != self.from || number != self.number) return Fate::kDeliver;
    self.hit = true;
    return self.fate;
  }

  std::size_t from;
  std::uint64_t number;
  Fate fate;
  std::atomic<bool> hit{false};
};

}  // namespace sluice::testing
