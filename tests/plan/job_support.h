#pragma once

#include <string>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/plan/job.h"

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

}  // namespace sluice::testing
