#include "sluice/plan/chain.h"

namespace sluice {

TensorChain::TensorChain(const Job& job, const std::vector<bool>& grouped,
                         const Way& others) {
  for (std::size_t t = job.profile.tensors.size(); t-- > 0;) {
    const TensorProfile& tensor = job.profile.tensors[t];
    chain.tail += tensor.backward;
    if (!grouped[t]) {
      rest.push_back(t);
      continue;
    }
    chain.elements.push_back(static_cast<double>(tensor.elements));
    chain.backward.push_back(chain.tail);
    chain.tail = 0;
    tensors.push_back(t);
  }
  if (!rest.empty()) {
    const BucketCost cost = others.of(elements_of(job, rest));
    chain.last = cost.exchange + cost.apply;
  }
}

std::vector<bool> grouped_tensors(const Job& job) {
  std::vector<bool> grouped;
  for (std::size_t t = 0; t < job.profile.tensors.size(); ++t) {
    grouped.push_back(job.all_dense() || !job.must_be_dense(t));
  }
  return grouped;
}

double elements_of(const Job& job, std::span<const std::size_t> tensors) {
  double sum = 0;
  for (const std::size_t t : tensors) {
    sum += static_cast<double>(job.profile.tensors[t].elements);
  }
  return sum;
}

GroupCost group_cost(const Job& job, const BucketCost& cost) {
  const bool beside = job.streams.apply_beside;
  return {cost.select, cost.exchange + (beside ? 0 : cost.apply)};
}

GroupCosts group_costs(const Job& job, const Way& way) {
  return [&](double elements) { return group_cost(job, way.of(elements)); };
}

Plan plan_of(const TensorChain& chain, const Groups& groups,
             std::span<const BucketPlan> ways, const BucketPlan& rest) {
  Plan plan;
  for (const Group& g : groups) {
    plan.buckets.push_back(ways[g.way]);
    plan.buckets.back().tensors.assign(
        chain.tensors.begin() + static_cast<long>(g.begin),
        chain.tensors.begin() + static_cast<long>(g.end));
  }
  if (!chain.rest.empty()) {
    plan.buckets.push_back(rest);
    plan.buckets.back().tensors = chain.rest;
  }
  return plan;
}

}  // namespace sluice
