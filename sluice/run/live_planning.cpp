#include "sluice/run/live_planning.h"

#include <algorithm>

#include "sluice/collective/auto.h"
#include "sluice/core/error.h"
#include "sluice/plan/network.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"
#include "sluice/run/ranks.h"
#include "sluice/sync/stage_costs.h"

namespace sluice {
namespace {

// A plan whose own densities are so many times higher. Those of plans are of
// the end of the schedule, those that planners choose of the moment.
Plan scaled(Plan plan, double factor) {
  for (BucketPlan& b : plan.buckets) {
    if (b.density) b.density = std::min(1.0, *b.density * factor);
  }
  return plan;
}

// Right on the first rank; others may not lead a machine.
std::optional<Topology> measured_network(const LiveRun& run) {
  if (knows_network(run.config)) return std::nullopt;
  Topology out = run.site.network;
  if (!out.two_level() || run.machines == nullptr) {
    out.between = measure_network(run.comm, run.step);
    return out;
  }
  {
    const Communicator::Group machine(run.comm, run.machines->mine());
    out.inside = measure_network(run.comm, run.step);
  }
  if (run.machines->leads()) {
    const Communicator::Group leaders(run.comm, run.machines->leaders());
    out.between = measure_network(run.comm, run.step);
  }
  return out;
}

// All ranks measure at once: so they do when they train.
std::vector<StageCost> costs(const LiveRun& run) {
  std::size_t elements = 0;
  for (const TensorInfo& t : run.model.tensors) {
    elements += shape3(t.dims).size();
  }
  const bool host = run.backend.is_host();
  const std::size_t largest = std::clamp<std::size_t>(
      elements, std::size_t{1} << 18, std::size_t{1} << (host ? 23 : 26));
  std::vector<StageCost> out;
  run.comm.work_alone(
      "measuring what a step takes", std::chrono::minutes(1), [&] {
        const std::string& own = run.config.sparsifier;
        out = measure_stages(run.config, run.backend, run.threads,
                             {own == "none" ? "topk" : own}, largest);
      });
  return out;
}

Decision choose(const LiveRun& run, const std::function<Profile()>& seen,
                const std::optional<Topology>& network, LiveOutcome& outcome) {
  std::optional<Network> between;
  if (network) between = network->between;
  const double above_end = run.densities.now / run.densities.end;
  PlanSite site = run.site;
  if (network) site.network = *network;
  Profile profile = seen();
  profile.costs = costs(run);
  Job job = job_of(run.config, run.model, site, profile);
  job.density = run.densities.now;
  outcome.profile = to_json(profile);
  outcome.network = to_json(job.network, run.comm.size(),
                            network ? "measured" : "given", profile.date);

  const std::string& planner = run.config.plan;
  const Plan before = scaled(run.plan, above_end);
  const Plan made = make_planner(planner)->make(job);
  const double was = iteration_seconds(before, job);
  // auto looks for the shortest step; who asks for a planner gets its plan.
  if (parse_spec(planner).name == "auto" &&
      iteration_seconds(made, job) >= (1 - kLiveGain) * was) {
    return {run.step,
            concat(describe_forecast(before, job), "; ", planner,
                   " would gain less than ", 100 * kLiveGain, " %"),
            between, run.plan};
  }
  return {run.step,
          concat(describe_forecast(made, job),
                 "; before: ", describe_forecast(before, job)),
          between, scaled(made, 1 / above_end)};
}

}  // namespace

LiveOutcome decide_live(const LiveRun& run,
                        const std::function<Profile()>& seen,
                        Decisions& decisions) {
  LiveOutcome outcome;
  const std::optional<Topology> network = measured_network(run);
  std::string text;
  if (run.comm.rank() == 0) {
    Decisions next = decisions;
    try {
      next.push_back(choose(run, seen, network, outcome));
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& e) {
      // Nobody should lose a run for want of a better plan.
      next.push_back(
          {run.step, concat("no plan was made: ", e.what()), {}, run.plan});
    }
    text = to_json(next, run.model.names);
  } else {
    problem_of([&] { costs(run); });  // which is rank 0's to know of
  }
  text = broadcast_first(run.comm, "plan", run.step, text);
  decisions = decisions_from_json(text, run.model.names);
  const Decision& now = decisions.back();
  outcome.says = concat("plan ", now.plan.name, " from step ", run.step + 1,
                        " on: ", now.why);
  return outcome;
}

std::vector<StageCost> measure_stages(
    const TrainConfig& config, Backend& backend, std::size_t threads,
    const std::vector<std::string>& sparsifiers, std::size_t largest) {
  const bool host = backend.is_host();
  CostQuery query;
  query.density = config.density;
  query.sparsifiers = sparsifiers;
  query.device = host ? "cpu" : "cuda";
  query.largest = largest;
  const auto clock = host ? make_cpu_clock(threads) : make_cuda_clock();
  return measure_costs(backend, *clock, query);
}

}  // namespace sluice
