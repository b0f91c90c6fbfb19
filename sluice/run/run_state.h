#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sluice/config/config.h"
#include "sluice/run/checkpoint.h"

namespace sluice {

// Where a run is, in its own units: `place` counts steps as if all of them had
// been of this size, so that data, learning rate and density follow from it.
struct Progress {
  std::uint64_t done = 0;  // steps
  std::uint64_t place = 0;
  std::uint64_t steps_per_epoch = 1;

  std::uint64_t epoch() const { return place / steps_per_epoch; }
  std::uint64_t step_in_epoch() const { return place % steps_per_epoch; }
  double epochs() const {
    return static_cast<double>(place) / static_cast<double>(steps_per_epoch);
  }
  // The same share of an epoch where epochs have so many steps.
  Progress in(std::uint64_t steps_of_epoch) const;
};

// What a checkpoint says of its run beside tensors.
struct RunState {
  std::string run;  // as in Origin
  Progress progress;
  std::uint64_t ranks = 1;
  std::uint64_t threads = 1;  // per rank: others give other bits
  std::string gpu_link;       // as in TrainSummary: so does another
  TrainConfig config;
  std::string plan;              // JSON
  std::vector<double> schedule;  // of learning rates
  double best_score = std::numeric_limits<double>::quiet_NaN();  // so far
  std::uint64_t data = 0;  // fingerprint, or 0 if unknown
};

// As the header of a checkpoint.
std::string to_json(const RunState& state);

// Throws std::runtime_error, or std::invalid_argument about the configuration,
// if the header at `path` is of something else or makes no sense: it may come
// from anyone.
RunState run_state_of(const Checkpoint& stored, const std::string& path);

}  // namespace sluice
