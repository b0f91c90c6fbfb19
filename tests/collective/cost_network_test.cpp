#include "exchanger.h"
#include "ranks.h"
#include "sluice/comm/emulated/emulated.h"
#include "sluice/comm/threads/threads.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::uint64_t kN = 400000;
constexpr double kDensity = 0.01;
const Link kLink = {50e-6, 8e-9, {}};

struct Measured {
  double seconds = 0;  // of the second step, from the last rank's start
  double bytes = 0;    // received by the rank that received most
};

// On a simulated network: what is computed takes no time.
Measured measure(std::string_view name, std::size_t size) {
  ManualClock clock;
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& engine : make_thread_engines(size, {&clock, nullptr, nullptr})) {
    ranks.push_back(std::make_unique<Communicator>(
        make_emulated(std::move(engine), kLink)));
  }
  std::vector<Communicator::Clock::time_point> begin(size);
  std::vector<Communicator::Clock::time_point> end(size);
  std::vector<double> bytes(size);
  run_ranks(ranks, [&](std::size_t r) {
    const auto algorithm = make_collective(name);
    Communicator& comm = *ranks[r];
    for (std::uint64_t step = 0; step < 2; ++step) {
      Exchanger exchanger;
      comm.barrier(step);
      comm.reset_traffic();
      begin[r] = comm.now();
      exchanger.reduce(*algorithm, comm, random_picks(kN, kDensity, r),
                       {.n = kN, .step = step, .rest = std::vector<float>(kN)});
      end[r] = comm.now();
      bytes[r] = static_cast<double>(comm.traffic().bytes_received);
      algorithm->commit(static_cast<std::uint64_t>(kN * kDensity) * size);
    }
  });
  const auto last = *std::max_element(begin.begin(), begin.end());
  return {std::chrono::duration<double>(
              *std::max_element(end.begin(), end.end()) - last)
              .count(),
          *std::max_element(bytes.begin(), bytes.end())};
}

// Every collective takes on a network what its row says that the network takes.
// For powers of two: else messages of ranks that are folded in meet others by
// chance.
TEST(CollectiveCosts, AreWhatTheSimulatedNetworkTakes) {
  for (const CostRow& row : collective_costs()) {
    for (const std::size_t size : {2, 4, 8}) {
      const auto ranks = static_cast<double>(size);
      Workload load{double{kN}, kN * kDensity, 0, ranks};
      load.u = independent_union(load.n, load.k, ranks);
      const Cost cost =
          row.of(load, {kLink.alpha, kLink.beta}, {0, 0, 0, 0, 0});
      const Measured real = measure(row.name, size);
      EXPECT_NEAR(cost.seconds / real.seconds, 1, 0.05)
          << row.name << " " << size;
      // Of oktopk, a row means the average step.
      EXPECT_NEAR(cost.bytes / real.bytes, 1, row.name == "oktopk" ? 0.1 : 0.05)
          << row.name << " " << size;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
