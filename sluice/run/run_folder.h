#pragma once

#include <string>

#include "sluice/comm/communicator.h"
#include "sluice/config/config.h"
#include "sluice/core/atomic_file.h"
#include "sluice/run/run_lock.h"

// How a run begins. Calls of all ranks together.

namespace sluice {

// Throws AgreedError, naming ranks and what differs, unless all ranks have the
// same configuration.
void compare_configs(Communicator& comm, const TrainConfig& config);

// What to do with a run that is in the folder already.
enum class OldRun { kRefuse, kResume, kReplace };

// Locks the folder of the configuration if it is there: before anything in it
// is read. Throws AgreedError if another job has it.
std::unique_ptr<RunLock> lock_old_folder(Communicator& comm,
                                         const TrainConfig& config);

// Makes the folder of a run, and locks it unless that was done; returns its
// path. Without a name it gets one from the model and the time. Throws
// AgreedError if it cannot be made, has a run in it that would be lost, or if
// another job has it.
std::string open_run_folder(Communicator& comm, const TrainConfig& config,
                            OldRun old, std::unique_ptr<RunLock>& lock);

// `base`, or the first of base-2, base-3, ... that is not there yet.
std::string free_folder(const std::string& base);

}  // namespace sluice
