#pragma once

#include "sluice/plan/job.h"

namespace sluice {

// A step of a plan, on paper.
struct Simulation {
  std::vector<BucketCost> costs;  // by bucket
  Timeline timeline;
  double compute = 0;    // forward, backward, update
  double iteration = 0;  // compute and what is not hidden beside it
  double exposed_exchange = 0;
  double exposed_work = 0;  // selecting and applying
  // The iteration if all but the network were free: no way to compress, however
  // fast, makes this plan faster.
  double free_compression = 0;
  double bytes = 0;  // of all buckets

  double efficiency() const { return compute / iteration; }
};

// Throws std::invalid_argument unless job and plan make sense. Whether ranks of
// a machine exchange as one is the plan's to say.
Simulation simulate(const Plan& plan, const Job& job);

// The iteration and the bytes alone; for who has checked both and asks often.
struct StepCost {
  double seconds = 0;
  double bytes = 0;
};
StepCost step_cost(const Plan& plan, const Job& job);
inline double iteration_seconds(const Plan& plan, const Job& job) {
  return step_cost(plan, job).seconds;
}

}  // namespace sluice
