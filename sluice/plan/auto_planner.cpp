#include "sluice/plan/auto_planner.h"

#include <limits>

#include "sluice/plan/chain.h"
#include "sluice/plan/merge_exact.h"
#include "sluice/plan/merging.h"
#include "sluice/plan/partial.h"
#include "sluice/plan/simulate.h"
#include "sluice/plan/ways.h"

namespace sluice {
namespace {

// The best of what it is shown.
class Best {
 public:
  explicit Best(const Job& job) : job_(job) {}

  void show(Plan plan) {
    const double seconds = iteration_seconds(plan, job_);
    if (seconds >= least_) return;
    least_ = seconds;
    plan_ = std::move(plan);
  }
  Plan take() { return std::move(plan_); }

 private:
  const Job& job_;
  Plan plan_;
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
    best.show(plan_of(tensors, groups, ways, rest.like()));
  }
}

}  // namespace

Plan AutoPlanner::plan(const Job& job) const {
  Best best(job);
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
      best.show(make_planner(name)->make(other));
    }
  }
  for (const PlannerEntry& entry : planners()) {
    // Merges by the first choice alone are omgs-exact's, by more collectives.
    if (entry.name == kName || entry.name == OmgsExact::kName) continue;
    if (!params_.lower && entry.name == AdtopkPartial::kName) continue;
    best.show(make_planner(entry.name)->make(job));
  }
  return best.take();
}

}  // namespace sluice
