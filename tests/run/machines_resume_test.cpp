// Runs with hierarchical plans, resumed with another number of ranks.

#include "sluice/run/rank_part.h"
#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

using States = std::vector<GradientSync::State>;

std::vector<double> sum_of(const States& states) {
  std::vector<double> sum(total_size());
  for (const auto& state : states) {
    for (std::size_t j = 0; j < sum.size(); ++j) {
      sum[j] += double(state.residual[j]);
    }
  }
  return sum;
}

// One step; `mean` is what it gave.
States step(const std::vector<std::size_t>& machines, std::uint64_t number,
            const States& from, std::vector<float>& mean) {
  auto ranks = make_thread_ranks(machines.size());
  States out(machines.size());
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plan_of({.machine_of = machines});
    options.machine_of = machines;
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    if (!from.empty()) sync.load(from[r]);
    device.run(sync, number, gradients_of(r, number));
    out[r] = sync.save();
    if (r == 0) mean = device.get();
  });
  return out;
}

// Leaders have all that is owed to the weights; its mean over the ranks stays
// the same, whoever leads then.
TEST(MachinesResume, OwesTheSameMeanToAnyNumberOfRanks) {
  std::vector<float> mean;
  const States before = step({0, 1, 0, 1}, 0, {}, mean);
  using Layout = std::vector<std::size_t>;
  for (const Layout& after :
       {Layout{0, 0}, Layout{0, 1}, Layout{0, 0, 1}, Layout{0, 0, 0, 0, 0},
        Layout{0, 1, 1, 0, 2, 2, 2, 2}}) {
    const auto ranks = static_cast<double>(after.size());
    States states(after.size());
    for (std::size_t r = 0; r < after.size(); ++r) {
      states[r].residual.resize(total_size());
      for (const Inherited& part : inherit(4, r, after.size())) {
        for (std::size_t j = 0; j < total_size(); ++j) {
          states[r].residual[j] +=
              static_cast<float>(part.factor) * before[part.rank].residual[j];
        }
      }
    }
    const std::vector<double> kept = sum_of(step(after, 1, states, mean));
    const std::vector<double> owed = sum_of(before);
    std::vector<double> brought(total_size());
    for (std::size_t r = 0; r < after.size(); ++r) {
      const std::vector<float> g = flat(gradients_of(r, 1));
      for (std::size_t j = 0; j < g.size(); ++j) brought[j] += double(g[j]);
    }
    for (std::size_t j = 0; j < total_size(); ++j) {
      ASSERT_NEAR(double(mean[j]) + kept[j] / ranks,
                  owed[j] / 4 + brought[j] / ranks, 1e-5)
          << ranks;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
