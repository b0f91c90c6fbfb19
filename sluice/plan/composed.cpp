#include "sluice/plan/composed.h"

#include <algorithm>

namespace sluice {

// The other planner sees what both rules take.
Plan Interleaved::plan(const Job& job) const {
  Job both = job;
  std::vector<std::string>& turns = both.sparse.turns;
  // A rule has no turn beside itself.
  const bool known =
      job.sparse.sparsifier == with_ ||
      std::find(turns.begin(), turns.end(), with_) != turns.end();
  if (!job.all_dense() && !known) turns.push_back(with_);
  return of_->make(both);
}

Plan Hybrid::plan(const Job& job) const {
  Job merged = job;
  merged.dense.clear();
  const auto is_dense = [&](std::size_t t) {
    return job.must_be_dense(t) ||
           job.profile.tensors[t].elements <= static_cast<std::size_t>(below_);
  };
  Plan plan;
  for (BucketPlan& group : of_->make(merged).buckets) {
    BucketPlan dense = group;
    if (!group.dense()) {
      dense = dense_bucket(job, job.dense_collective);
      dense.piece = group.piece;
      dense.tensors.clear();
      for (const std::size_t t : group.tensors) {
        if (is_dense(t)) dense.tensors.push_back(t);
      }
      std::erase_if(group.tensors, is_dense);
    } else {
      group.tensors.clear();
    }
    // Dense first: the others are selected while it is sent.
    for (BucketPlan* part : {&dense, &group}) {
      if (!part->tensors.empty()) plan.buckets.push_back(std::move(*part));
    }
  }
  return plan;
}

}  // namespace sluice
