#include "sluice/plan/hierarchical.h"

#include "sluice/core/error.h"

namespace sluice {

HierarchicalPlanner::HierarchicalPlanner(const Params& params)
    : of_(make_planner(params.of)) {
  require(of_->name() != kName,
          "[plan] hierarchical must be of another planner, got of=", params.of);
}

Plan HierarchicalPlanner::plan(const Job& job) const {
  Job together = job;
  together.hierarchical = true;
  return of_->make(together);
}

}  // namespace sluice
