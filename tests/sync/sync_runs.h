#pragma once

#include "sync/sync_support.h"

// Whole runs of a scenario, and the laws they must keep.

namespace sluice::testing {

struct Step {
  std::vector<float> mean;
  std::vector<float> gradient;
  std::vector<float> residual;
  SyncReport report;
};

// By rank, then step. Each rank announces in an order of its own. `observers`:
// one per rank, or none.
inline std::vector<std::vector<Step>> run_watched(
    const Scenario& job, const std::vector<SelectionObserver*>& observers) {
  auto ranks = make_thread_ranks(job.ranks);
  LinkHub hub;
  std::vector<std::vector<Step>> out(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    SyncOptions options;
    options.plan = plan_of(job);
    options.nonfinite = job.nonfinite;
    if (!observers.empty()) options.observer = observers[r];
    const auto link = make_link(job.backend, hub, *ranks[r], *backend);
    options.link = link.get();
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      Gradients g = gradients_of(r, step);
      if (step == job.nan_at && r == 0) g[0][3] = NAN;
      if (job.positive) make_positive(g);
      Step s;
      s.gradient = flat(g);
      std::vector<std::size_t> order(kTensors.size());
      std::iota(order.begin(), order.end(), 0U);
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return mix64(r, step, a) < mix64(r, step, b);
      });
      device.set(g);
      sync.begin(step);
      for (const std::size_t t : order) device.announce(sync, t);
      s.report = sync.finish();
      s.mean = device.get();
      s.residual = sync.save().residual;
      out[r].push_back(std::move(s));
    }
  });
  return out;
}

inline std::vector<std::vector<Step>> run(const Scenario& job) {
  return run_watched(job, {});
}

// Laws 1 and 2.
inline void expect_law(const std::vector<std::vector<Step>>& ranks) {
  const std::size_t n = total_size();
  for (std::size_t step = 0; step < ranks[0].size(); ++step) {
    for (std::size_t j = 0; j < n; ++j) {
      double owed = 0;
      double have = double(ranks.size()) * double(ranks[0][step].mean[j]);
      for (const auto& rank : ranks) {
        ASSERT_EQ(rank[step].mean[j], ranks[0][step].mean[j]);
        const double before =
            step == 0 ? 0 : double(rank[step - 1].residual[j]);
        owed += before + double(rank[step].gradient[j]);
        have += double(rank[step].residual[j]);
      }
      ASSERT_NEAR(have, owed, 1e-5) << "step " << step << " index " << j;
    }
  }
}

}  // namespace sluice::testing
