#pragma once

#include "sluice/plan/planner.h"

namespace sluice {

// How sparse buckets of a job may travel: by its collective, or if that is
// "auto" by any that delivers the exact sum; none if all must be dense.
std::vector<BucketPlan> sparse_ways(const Job& job);

// How dense buckets may travel: by the job's own dense collective, and after it
// by every other one that sums vectors in the form of value that the job asks
// for, so that no planner rounds values that were to travel as fp32; by the
// job's own alone, if all is dense and a collective was asked for by name.
std::vector<BucketPlan> dense_ways(const Job& job);

}  // namespace sluice
