#pragma once

#include <limits>

#include "sluice/config/config.h"
#include "sluice/config/lr_schedule.h"
#include "sluice/run/manifest.h"
#include "sluice/torch/optim/optimizer.h"

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

// What a checkpoint holds once: weights, optimizer, and where the run was.
struct ModelFile {
  std::string run;  // as in Origin
  Progress progress;
  std::uint64_t ranks = 1;
  std::uint64_t threads = 1;  // per rank: others give other bits
  TrainConfig config;
  std::string plan;              // JSON
  std::vector<double> schedule;  // of learning rates
  double best_accuracy = std::numeric_limits<double>::quiet_NaN();  // so far
  std::uint64_t data = 0;  // fingerprint, or 0 if unknown
  NamedTensors parameters;
  NamedTensors buffers;
  NamedTensors optimizer;
};

std::string model_file_path(const std::string& folder);
// Returns the digest of the file.
std::uint64_t write_model_file(const std::string& path, const ModelFile& file);

// Throws std::runtime_error if it is not there, damaged, something else, or not
// of the checkpoint of the manifest.
ModelFile read_model_file(const std::string& path, const Manifest& manifest);

// Throws std::invalid_argument if a run of this configuration cannot go on from
// the file.
void check_compatible(const ModelFile& file, const TrainConfig& config);

}  // namespace sluice
