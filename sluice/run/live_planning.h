#pragma once

#include <functional>

#include "sluice/comm/machines.h"
#include "sluice/run/planning.h"

// How ranks that train come to another plan by what their own steps take.

namespace sluice {

// Steps that are looked at before something is decided.
inline constexpr std::size_t kLiveSteps = 15;
// What another plan must gain on paper, as a share of the step.
inline constexpr double kLiveGain = 0.02;

// Training as one of its ranks sees it, between two steps.
struct LiveRun {
  const TrainConfig& config;
  Communicator& comm;
  Backend& backend;
  std::size_t threads;  // of the rank
  PlannedTensors model;
  PlanSite site;
  const Machines* machines;  // null: the site's network has one level
  std::uint64_t step;        // so many are done
  Densities densities;
  const Plan& plan;  // by which it goes
};

// What a decision came to; all but the plan are of rank 0.
struct LiveOutcome {
  std::string says;     // for people
  std::string profile;  // JSON, by which it was made
  std::string network;  // likewise
};

// A call of all ranks: measures the stages of a bucket and, unless it is given,
// the network. The first rank, whose steps were like `seen` says (without
// costs; not asked elsewhere), plans, and adds what it decided to the decisions
// of all. Where no plan can be made, that is to go on as before. Throws
// CommError.
LiveOutcome decide_live(const LiveRun& run,
                        const std::function<Profile()>& seen,
                        Decisions& decisions);

// What the stages of a bucket take for these sparsifiers, of up to so many
// elements. Ranks of one machine that measure at once see what they take from
// each other.
std::vector<StageCost> measure_stages(
    const TrainConfig& config, Backend& backend, std::size_t threads,
    const std::vector<std::string>& sparsifiers, std::size_t largest);

}  // namespace sluice
