#include "sluice/plan/simulate.h"

#include <algorithm>
#include <optional>

namespace sluice {
namespace {

// What backward takes per gradient, in its order.
std::vector<double> backward_of(const Profile& profile) {
  std::vector<double> seconds;
  for (const TensorProfile& t : profile.tensors) seconds.push_back(t.backward);
  std::reverse(seconds.begin(), seconds.end());
  return seconds;
}

// Neighbours mostly do: what they cost is then looked up once.
bool travels_alike(const BucketPlan& a, const BucketPlan& b) {
  return a.sparsifier == b.sparsifier && a.collective == b.collective &&
         a.density == b.density && a.turns == b.turns && a.values == b.values &&
         a.device == b.device;
}

std::vector<BucketCost> costs_of(const Plan& plan, const Job& job, bool free) {
  std::vector<BucketCost> costs;
  std::optional<Way> way;
  for (const BucketPlan& b : plan.buckets) {
    if (!way || !travels_alike(b, way->like())) {
      way.emplace(job, b, free, plan.hierarchical);
    }
    const std::size_t elements = bucket_elements(job.profile, b);
    costs.push_back(way->of(static_cast<double>(elements)));
  }
  return costs;
}

Timeline timeline_of(const Plan& plan, const Job& job,
                     const std::vector<BucketCost>& costs) {
  const std::size_t count = job.profile.tensors.size();
  std::vector<BucketWork> work;
  const bool machines = plan.hierarchical && job.shares_machines();
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    // The first tensor of the model is made last.
    const auto& tensors = plan.buckets[i].tensors;
    const std::size_t last = *std::min_element(tensors.begin(), tensors.end());
    work.push_back({count - last, costs[i].select, costs[i].exchange,
                    costs[i].apply, machines || plan.buckets[i].dense(),
                    job.offloads(plan.buckets[i])});
  }
  return run_timeline(job.profile.forward, backward_of(job.profile), work,
                      job.streams, vote_seconds(job, plan.buckets.size()));
}

}  // namespace

StepCost step_cost(const Plan& plan, const Job& job) {
  const std::vector<BucketCost> costs = costs_of(plan, job, false);
  StepCost out;
  out.seconds = timeline_of(plan, job, costs).end + job.profile.update;
  for (const BucketCost& c : costs) out.bytes += c.bytes;
  return out;
}

Simulation simulate(const Plan& plan, const Job& job) {
  check_job(job);
  check_plan(plan, job.profile.names());
  Simulation s;
  s.costs = costs_of(plan, job, false);
  s.timeline = timeline_of(plan, job, s.costs);
  s.compute = job.profile.forward + job.profile.backward() + job.profile.update;
  s.iteration = s.timeline.end + job.profile.update;
  s.exposed_exchange = s.timeline.exposed_exchange();
  s.exposed_work = s.timeline.exposed_work();
  s.free_compression = timeline_of(plan, job, costs_of(plan, job, true)).end +
                       job.profile.update;
  for (const BucketCost& c : s.costs) s.bytes += c.bytes;
  return s;
}

}  // namespace sluice
