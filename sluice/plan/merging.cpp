#include "sluice/plan/merging.h"

#include "sluice/plan/chain.h"
#include "sluice/plan/merge_exact.h"

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

Plan OmgsExact::plan(const Job& job) const {
  return merge_usual(job, [&](const Chain& chain, const GroupCosts& cost) {
    return merge_exactly(chain, {&cost, 1}, job.streams.select_beside);
  });
}

}  // namespace sluice
