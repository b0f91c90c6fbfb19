#pragma once

#include <functional>

#include "sluice/plan/merge.h"
#include "sluice/plan/planner.h"

// What planners share: tensors of a job as a chain, and groups of it as
// buckets.

namespace sluice {

// Those tensors of a job that a planner groups, as a chain. The others travel
// in one dense bucket at the end.
struct TensorChain {
  TensorChain(const Job& job, const std::vector<bool>& grouped,
              const Way& others);

  Chain chain;
  std::vector<std::size_t> tensors;  // by position in the chain
  std::vector<std::size_t> rest;     // in the order of backward
};

// All tensors that need not be dense; if nothing may be sparse, all.
std::vector<bool> grouped_tensors(const Job& job);

double elements_of(const Job& job, std::span<const std::size_t> tensors);

// Applying counts as part of the exchange unless it runs beside it; so it does
// for dense buckets, whose sums are applied at the end of the step.
GroupCost group_cost(const Job& job, const BucketCost& cost);
GroupCosts group_costs(const Job& job, const Way& way);

// A bucket per group, like `ways[group.way]`, then one of the rest.
Plan plan_of(const TensorChain& chain, const Groups& groups,
             std::span<const BucketPlan> ways, const BucketPlan& rest);

}  // namespace sluice
