#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sluice/comm/communicator.h"

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

}  // namespace sluice::testing
