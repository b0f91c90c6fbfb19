#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// How sparse buckets of a job may travel: by its collective, or if that is
// "auto" by any that delivers the exact sum; none if all must be dense.
std::vector<BucketPlan> sparse_ways(const Job& job);

// How dense ones may: by any collective that sums vectors, the job's own first;
// by no other, if all are dense and it was asked for by name.
std::vector<BucketPlan> dense_ways(const Job& job);

}  // namespace sluice
