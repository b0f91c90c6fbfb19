#pragma once

#include "sluice/backend/backend.h"
#include "sluice/comm/communicator.h"
#include "sluice/config/config.h"
#include "sluice/plan/decisions.h"
#include "sluice/plan/job.h"
#include "sluice/sparsify/exceptions.h"

// Plans of a training run.

namespace sluice {

// What planners are told besides costs: who exchanges, and over what.
struct PlanSite {
  std::size_t ranks = 1;
  Topology network;
  // Whether what is not computed has cores of its own to run on.
  bool spare_cores = true;
  std::string device = "cpu";  // that selects
};

// Where ranks that run with a configuration exchange, before anything is
// measured: planners go by the same numbers as collectives, or, where those are
// measured later, by nominal ones. `machines` of them; so many threads per
// rank.
PlanSite plan_site(const TrainConfig& config, const Communicator& comm,
                   const Backend& backend, std::size_t machines,
                   std::size_t threads);
// Whether it says what the network is like. Of an emulated network, too,
// messages take what the engine below it takes.
bool knows_network(const TrainConfig& config);

// Of a network that nobody has measured, as parse_link() takes it: between the
// ranks of one machine, or between machines. The same in every run, and so is
// what is chosen by it.
std::string nominal_network(bool inside_machine);

// A model, as planners see it. Refers to its parts.
struct PlannedTensors {
  std::span<const TensorInfo> tensors;
  std::span<const Treatment> treatments;  // of each
  std::span<const std::string> names;     // of each
};

// Whether the run measures its first steps and plans by them: its planner goes
// by costs, and none are given. Throws std::invalid_argument if there is no
// such planner.
bool plans_live(const TrainConfig& config);

// What the run begins with, or is to repeat if --plan names a file that says
// so, and in `forecast`, for people, what is expected of it; nothing if there
// are no costs. Throws std::invalid_argument, or std::runtime_error for files.
Decisions first_decisions(const TrainConfig& config,
                          const PlannedTensors& model, const PlanSite& site,
                          std::string& forecast);

// What planners are told of the run.
Job job_of(const TrainConfig& config, const PlannedTensors& model,
           const PlanSite& site, const Profile& profile);

// Of the elements that the sparsifier is to select from, the share that a plan
// sends whole all the same: from 0 to 1; 0 if there are no such elements.
double share_sent_whole(const Plan& plan, const PlannedTensors& model);

// "2 buckets topk by balanced, 1 by dense; a step of 20.1 ms expected, 3.3 of
// them waiting".
std::string describe_forecast(const Plan& plan, const Job& job);

}  // namespace sluice
