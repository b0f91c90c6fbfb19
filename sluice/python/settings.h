#pragma once

#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/config/config.h"
#include "sluice/sync/gradient_sync.h"

namespace sluice {

// How gradients are exchanged, as Python has it.
struct SyncSettings {
  // Of a run's configuration, what is not about models and data.
  TrainConfig config;
  // As plan.json has it, with what was decided later, in place of what
  // config.plan names; or empty.
  std::string plan;
  std::uint64_t steps_per_epoch = 0;  // of density_schedule
  std::uint64_t total_steps = 0;      // of the training; 0: unknown
  // Once they are known, what comes together travels together; all is dense.
  bool follow = false;

  // From a JSON object with the keys of TrainConfig and those above. Throws
  // std::invalid_argument, naming the key, for what makes no sense.
  static SyncSettings from_json(const std::string& text);
};

// Throws AgreedError on all ranks, naming a rank and what it has otherwise,
// unless all have the same settings and tensors, and none has a `problem`. A
// call of all ranks.
void compare_settings(Communicator& comm, const SyncSettings& settings,
                      const std::vector<TensorInfo>& tensors,
                      const std::string& problem);

// What they come to for these tensors. Throws std::invalid_argument.
SyncOptions sync_options(const SyncSettings& settings,
                         const std::vector<TensorInfo>& tensors,
                         const Communicator& comm, const Backend& backend);

}  // namespace sluice
