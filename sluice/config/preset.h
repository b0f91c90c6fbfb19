#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/config/config.h"

// The training jobs of the papers, by name.

namespace sluice {

// A job as it was published. Nothing in it depends on the number of workers: a
// rate that grows with them says so in its schedule (per_worker=true,
// warmup_from=workers), which knows how many there are.
struct Preset {
  std::string_view name;
  std::string_view source;  // paper or system, and what is done otherwise
  // Keys of TrainConfig and their values; the rest are defaults.
  std::vector<std::pair<std::string_view, std::string_view>> values;
};

// MODEL-DATASET is the one to begin with; MODEL-DATASET-SYSTEM is faithful to
// one system.
std::span<const Preset> presets();

// Sets what the preset says and leaves the rest. Throws std::invalid_argument,
// naming the nearest, if there is none of that name.
void apply_preset(TrainConfig& config, std::string_view name);

// For listings: what each sets.
std::vector<Description> preset_descriptions();

}  // namespace sluice
