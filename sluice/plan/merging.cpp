#include "sluice/plan/merging.h"

#include <limits>

#include "sluice/plan/chain.h"
#include "sluice/plan/merge_exact.h"
#include "sluice/plan/simulate.h"

namespace sluice {
namespace {

// Merges what need not be dense, by a rule.
template <class Rule>
Plan merge_usual(const Job& job, Rule&& rule) {
  const Way usual(job, usual_bucket(job));
  const Way dense(job, dense_bucket(job, job.dense_collective));
  const TensorChain tensors(job, grouped_tensors(job), dense);
  const Groups groups = rule(tensors.chain, group_costs(job, usual));
  return plan_of(tensors, groups, {&usual.like(), 1}, dense.like());
}

Plan merge_best(const Job& job) {
  Plan plan = merge_usual(job, [&](const Chain& chain, const GroupCosts& cost) {
    return merge_exactly(chain, {&cost, 1}, job.streams.select_beside);
  });
  plan.hierarchical = job.hierarchical;
  return plan;
}

// The first of plans that take as long.
Plan shortest_of(std::vector<Plan>& plans, const Job& job) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double seconds = iteration_seconds(plans[i], job);
    if (seconds >= least) continue;
    least = seconds;
    best = i;
  }
  return std::move(plans[best]);
}

}  // namespace

Plan MgWfbp::plan(const Job& job) const {
  const Way dense(job, dense_bucket(job, job.dense_collective));
  const std::vector<bool> all(job.profile.tensors.size(), true);
  const TensorChain tensors(job, all, dense);
  const double alpha = dense.of(1).exchange;
  const Groups groups =
      merge_mgwfbp(tensors.chain, group_costs(job, dense), alpha);
  return plan_of(tensors, groups, {&dense.like(), 1}, dense.like());
}

Plan Omgs::plan(const Job& job) const {
  return merge_usual(job, [](const Chain& chain, const GroupCosts& cost) {
    return merge_omgs(chain, cost);
  });
}

// Costs of groups say nothing of what only a whole step shows: applying beside
// the link or behind the vote, for one. So the simulated step decides among the
// merges that the program finds and those of simpler planners.
Plan OmgsExact::plan(const Job& job) const {
  std::vector<Plan> plans = {merge_best(job)};
  if (job.streams.apply_beside) {
    Job other = job;
    other.streams.apply_beside = false;
    plans.push_back(merge_best(other));
  }
  for (const char* name : {"omgs", "layerwise", "single"}) {
    plans.push_back(make_planner(name)->make(job));
  }
  return shortest_of(plans, job);
}

}  // namespace sluice
