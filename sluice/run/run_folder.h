#pragma once

#include <string>

#include "sluice/comm/communicator.h"
#include "sluice/config/config.h"
#include "sluice/run/atomic_file.h"

// How a run begins. Calls of all ranks together.

namespace sluice {

// Throws AgreedError, naming ranks and what differs, unless all ranks have the
// same configuration.
void compare_configs(Communicator& comm, const TrainConfig& config);

// What to do with a run that is in the folder already.
enum class OldRun { kRefuse, kResume, kReplace };

// Makes the folder of a run; returns its path. Without a name it gets one from
// the model and the time. Throws AgreedError if it cannot be made, or has a run
// in it that would be lost.
std::string open_run_folder(Communicator& comm, const TrainConfig& config,
                            OldRun old);

}  // namespace sluice
