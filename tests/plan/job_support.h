#pragma once

#include <cmath>
#include <random>
#include <string>

#include "refusal.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"

namespace sluice::testing {

// A job of tensors of these sizes, in forward order, that backward makes at the
// same pace per element; 4 ranks at 50 us and 1 Gbit/s. Selecting takes 10 us
// and 1 ns per element.
inline Job job_of(const std::vector<std::size_t>& sizes) {
  Job job;
  job.profile.model = "test";
  job.profile.forward = 5e-3;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    TensorProfile t;
    t.name = "t" + std::to_string(i);
    t.elements = sizes[i];
    t.backward = 1e-4 + 2e-9 * static_cast<double>(sizes[i]);
    job.profile.tensors.push_back(t);
  }
  job.profile.costs.push_back(
      {"select", "*", "cpu", CostCurve({{1, 1e-5}, {1e9, 1}})});
  job.profile.costs.push_back(
      {"apply", "*", "cpu", CostCurve({{1, 1e-6}, {1e9, 2}})});
  job.network.between = {50e-6, 8e-9};
  job.ranks = 4;
  job.collectives = collective_costs();
  return job;
}

// The same with a GPU that selects and applies so many times as fast, and takes
// so many seconds per element to bring gradients to the host or back.
inline void put_on_gpu(Job& job, double faster, double copy) {
  std::vector<StageCost> more;
  for (const StageCost& c : job.profile.costs) {
    std::vector<CostCurve::Point> points = c.curve.points();
    for (CostCurve::Point& p : points) p.seconds /= faster;
    more.push_back({c.what, c.method, "cuda", CostCurve(points)});
  }
  more.push_back(
      {"copy", "*", "cuda", CostCurve({{1, 1e-5}, {1e9, 1e-5 + 1e9 * copy}})});
  job.profile.costs.insert(job.profile.costs.end(), more.begin(), more.end());
  job.device = "cuda";
}

// Any model on any network; small tensors must stay dense in half of them.
inline Job random_job(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> log_size(2, 7);
  std::vector<std::size_t> sizes(1 + random() % 14);
  for (std::size_t& s : sizes) {
    s = static_cast<std::size_t>(std::pow(10, log_size(random)));
  }
  Job job = job_of(sizes);
  for (TensorProfile& t : job.profile.tensors) {
    t.backward *= std::exp2(static_cast<double>(random() % 4));
  }
  constexpr double kRanks[] = {1, 2, 3, 4, 16, 64, 1024};
  job.ranks = kRanks[random() % 7];
  job.network.between.beta = std::pow(10, -11 + 0.5 * double(random() % 7));
  job.network.between.alpha = random() % 2 == 0 ? 5e-6 : 5e-4;
  job.streams = {random() % 2 == 0, random() % 3 == 0};
  if (random() % 2 == 0) job.dense = dense_tensors(job.profile, 0, 10000);
  if (random() % 5 == 0) job.sparse.collective = "allgather";
  if (random() % 3 == 0) {
    put_on_gpu(job, std::pow(4, double(random() % 5) - 2), 1e-10);
  }
  return job;
}

inline double seconds(std::string_view planner, const Job& job) {
  return simulate(make_planner(planner)->make(job), job).iteration;
}

inline std::string check_refusal(const Plan& plan, const Job& job) {
  return refusal([&] { check_plan(plan, job.profile.names()); });
}

// Exact to rounding: plans may be the same by two ways of adding up.
inline constexpr double kRounding = 1 + 1e-12;
inline constexpr unsigned kJobs = 150;

}  // namespace sluice::testing
