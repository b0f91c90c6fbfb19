#include "sluice/plan/auto_planner.h"

#include <algorithm>
#include <limits>

#include "sluice/plan/chain.h"
#include "sluice/plan/composed.h"
#include "sluice/plan/hierarchical.h"
#include "sluice/plan/merge_exact.h"
#include "sluice/plan/merging.h"
#include "sluice/plan/partial.h"
#include "sluice/plan/simulate.h"
#include "sluice/plan/ways.h"

namespace sluice {
namespace {

// The best of what it is shown: of plans that are within `slack` of the
// shortest the one that sends least.
class Best {
 public:
  Best(const Job& job, double slack) : job_(job), slack_(slack) {}

  void show(Plan plan, bool hierarchical) {
    plan.hierarchical = hierarchical;
    const StepCost cost = step_cost(plan, job_);
    least_ = std::min(least_, cost.seconds);
    if (is_short(cost)) shown_.push_back({cost, std::move(plan)});
  }

  Plan take() {
    Shown* best = nullptr;
    for (Shown& s : shown_) {
      if (!is_short(s.cost)) continue;
      const bool better = best == nullptr || s.cost.bytes < best->cost.bytes ||
                          (s.cost.bytes == best->cost.bytes &&
                           s.cost.seconds < best->cost.seconds);
      if (better) best = &s;
    }
    return std::move(best->plan);
  }

 private:
  struct Shown {
    StepCost cost;
    Plan plan;
  };
  bool is_short(const StepCost& cost) const {
    return cost.seconds <= (1 + slack_) * least_;
  }

  const Job& job_;
  double slack_;
  std::vector<Shown> shown_;
  double least_ = std::numeric_limits<double>::infinity();
};

// Of ways that select alike, each group takes the one that sends it first.
class Fastest {
 public:
  Fastest(const Job& job, std::vector<BucketPlan> ways) : job_(job) {
    for (BucketPlan& way : ways) ways_.emplace_back(job, way);
  }

  bool empty() const { return ways_.empty(); }
  const Way& of(double elements) const { return ways_[pick(elements).way]; }
  GroupCosts costs() const {
    return [this](double elements) { return pick(elements).cost; };
  }

 private:
  struct Pick {
    std::size_t way = 0;
    GroupCost cost;
  };
  Pick pick(double elements) const {
    Pick best;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const GroupCost cost = group_cost(job_, ways_[i].of(elements));
      if (i == 0 || cost.exchange < best.cost.exchange) best = {i, cost};
    }
    return best;
  }

  const Job& job_;
  std::vector<Way> ways_;
};

// Shows the best merges of `grouped` tensors, each group by one of `choices`;
// and by the first of them alone, if there are several.
void show_merges(Best& best, const Job& job, const std::vector<bool>& grouped,
                 std::span<const Fastest* const> choices, const Way& rest) {
  std::vector<GroupCosts> costs;
  for (const Fastest* choice : choices) costs.push_back(choice->costs());
  const TensorChain tensors(job, grouped, rest);
  const PricedChain priced(tensors.chain, costs);
  for (std::size_t count = choices.size(); count > 0; --count) {
    Groups groups = merge_exactly(priced, count, job.streams.select_beside);
    std::vector<BucketPlan> ways;
    for (Group& g : groups) {
      const double elements = elements_of(
          job, std::span(tensors.tensors).subspan(g.begin, g.end - g.begin));
      ways.push_back(choices[g.way]->of(elements).like());
      g.way = ways.size() - 1;
    }
    best.show(plan_of(tensors, groups, ways, rest.like()), job.hierarchical);
  }
}

// All there is for a job, hierarchical or not, as it says.
void show_all(Best& best, const Job& job, bool lower) {
  const Fastest sparse(job, sparse_ways(job));
  const Fastest dense(job, dense_ways(job));
  const std::vector<bool> all(job.profile.tensors.size(), true);
  const Way& whole =
      dense.of(elements_of(job, TensorChain(job, all, dense.of(1)).tensors));
  const Fastest* const only_dense[] = {&dense};
  show_merges(best, job, all, only_dense, whole);
  if (!sparse.empty()) {
    const std::vector<bool> free = grouped_tensors(job);
    const Fastest* const both[] = {&sparse, &dense};
    const TensorChain tensors(job, free, whole);
    const Way& rest = dense.of(elements_of(job, tensors.rest));
    show_merges(best, job, free, both, rest);
  }
  for (const BucketPlan& way : dense_ways(job)) {
    Job other = job;
    other.sparse = way;
    other.dense_collective = way.collective;
    for (const char* name : {"layerwise", "single", "mgwfbp"}) {
      best.show(make_planner(name)->make(other), job.hierarchical);
    }
  }
  for (const PlannerEntry& entry : planners()) {
    if (entry.name == AutoPlanner::kName ||
        entry.name == HierarchicalPlanner::kName) {
      continue;
    }
    // Merges by the first choice alone are omgs-exact's, by more collectives;
    // as far as merges know what a group takes.
    const bool known = !job.streams.one_core && !job.streams.apply_beside;
    if (entry.name == OmgsExact::kName && known) continue;
    // Another rule, which nobody asked for.
    if (entry.name == Interleaved::kName) continue;
    if (!lower && entry.name == AdtopkPartial::kName) continue;
    best.show(make_planner(entry.name)->make(job), job.hierarchical);
  }
}

}  // namespace

Plan AutoPlanner::plan(const Job& job) const {
  Best best(job, job.all_dense() ? 0 : params_.slack);
  show_all(best, job, params_.lower);
  // On one machine there is nobody to exchange with as one.
  const bool several = job.ranks > job.network.per_machine;
  if (!job.hierarchical && job.shares_machines() && several) {
    Job together = job;
    together.hierarchical = true;
    show_all(best, together, params_.lower);
  }
  return best.take();
}

}  // namespace sluice
