#include "sluice/torch/train/live_plan.h"

#include <algorithm>

#include "sluice/collective/auto.h"
#include "sluice/core/error.h"
#include "sluice/plan/network.h"
#include "sluice/plan/planner.h"
#include "sluice/plan/simulate.h"

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

}  // namespace

LivePlan::LivePlan(Session& session, Profiling& profiling)
    : session_(session), profiling_(profiling) {
  const TrainConfig& config = session.config;
  const bool live = session.exchanges() && plans_live(config);
  watches_ = live && config.replan == "drift";
  const bool decided = session.model.decisions.size() > 1;
  if (live && !decided) look_again();
}

void LivePlan::look_again() {
  measuring_ = true;
  profiling_.restart(
      std::max(kSteps, static_cast<std::size_t>(session_.config.profile)));
}

void LivePlan::begin_step() {
  const std::uint64_t done = session_.progress.done;
  const Decision& now = decision_at(session_.model.decisions, done);
  const bool same = now.plan == session_.model.plan && !now.network;
  if (now.step != done || same) return;
  session_.take_plan(now);
}

bool LivePlan::asks() const {
  // Labels of a trace are those of one plan.
  return measuring_ && session_.is_first() && profiling_.done() &&
         !session_.trace.on();
}

void LivePlan::add(double seconds) {
  const bool repeats =
      session_.model.decisions.back().step > session_.progress.done;
  if (!watches_ || measuring_ || repeats) return;
  if (drift_.add(seconds)) look_again();
}

// A call of all ranks. Right on the first rank; others may not lead a machine.
std::optional<Topology> LivePlan::measured_network() {
  if (knows_network(session_.config)) return std::nullopt;
  Communicator& comm = session_.comm;
  const std::uint64_t step = session_.progress.done;
  Topology out = session_.site().network;
  if (!out.two_level()) {
    out.between = measure_network(comm, step);
    return out;
  }
  const Machines machines = session_.machines();
  {
    const Communicator::Group machine(comm, machines.mine());
    out.inside = measure_network(comm, step);
  }
  if (machines.leads()) {
    const Communicator::Group leaders(comm, machines.leaders());
    out.between = measure_network(comm, step);
  }
  return out;
}

// All ranks measure at once: so they do when they train.
std::vector<StageCost> LivePlan::costs() {
  std::size_t elements = 0;
  for (const TensorInfo& t : session_.model.tensors) {
    elements += shape3(t.dims).size();
  }
  const bool host = session_.backend->is_host();
  const std::size_t largest = std::clamp<std::size_t>(
      elements, std::size_t{1} << 18, std::size_t{1} << (host ? 23 : 26));
  std::vector<StageCost> out;
  session_.comm.work_alone(
      "measuring what a step takes", std::chrono::minutes(1), [&] {
        const std::string& own = session_.config.sparsifier;
        out = profiling_.measure({own == "none" ? "topk" : own}, largest);
      });
  return out;
}

Decision LivePlan::choose(const std::optional<Topology>& network,
                          Outcome& outcome) {
  std::optional<Network> between;
  if (network) between = network->between;
  const Densities densities = session_.densities();
  const double above_end = densities.now / densities.end;
  PlanSite site = session_.site();
  if (network) site.network = *network;
  Profile profile = profiling_.profile();
  profile.costs = costs();
  Job job = job_of(session_.config, session_.model.as_planned(), site, profile);
  job.density = densities.now;
  outcome.profile = to_json(profile);
  outcome.network = to_json(job.network, session_.comm.size(),
                            network ? "measured" : "given", profile.date);

  const std::string& planner = session_.config.plan;
  const Plan before = scaled(session_.model.plan, above_end);
  const Plan made = make_planner(planner)->make(job);
  const double was = iteration_seconds(before, job);
  // auto looks for the shortest step; who asks for a planner gets its plan.
  if (parse_spec(planner).name == "auto" &&
      iteration_seconds(made, job) >= (1 - kGain) * was) {
    return {session_.progress.done,
            concat(describe_forecast(before, job), "; ", planner,
                   " would gain less than ", 100 * kGain, " %"),
            between, session_.model.plan};
  }
  return {session_.progress.done,
          concat(describe_forecast(made, job),
                 "; before: ", describe_forecast(before, job)),
          between, scaled(made, 1 / above_end)};
}

LivePlan::Outcome LivePlan::decide() {
  Outcome outcome;
  const std::uint64_t step = session_.progress.done;
  const std::optional<Topology> network = measured_network();
  Decisions& decisions = session_.model.decisions;
  std::string text;
  if (session_.is_first()) {
    Decisions next = decisions;
    try {
      next.push_back(choose(network, outcome));
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& e) {
      // Nobody should lose a run for want of a better plan.
      next.push_back({step,
                      concat("no plan was made: ", e.what()),
                      {},
                      session_.model.plan});
    }
    text = to_json(next, session_.model.names);
  } else {
    problem_of([&] { costs(); });  // which is rank 0's to know of
  }
  text = broadcast_first(session_.comm, "plan", step, text);
  decisions = decisions_from_json(text, session_.model.names);
  const Decision& now = decisions.back();
  session_.take_plan(now);
  measuring_ = false;
  drift_.restart();
  outcome.says =
      concat("plan ", now.plan.name, " from step ", step + 1, " on: ", now.why);
  return outcome;
}

}  // namespace sluice
