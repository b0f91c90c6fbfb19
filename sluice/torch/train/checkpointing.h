#pragma once

#include <optional>
#include <string>

#include "sluice/torch/train/session.h"

// Checkpoints of a session. Calls of all ranks together.

namespace sluice {

// A checkpoint to go on from.
struct SavedRun {
  std::string folder;
  Manifest manifest;
  ModelFile model;
};

// The one that `resume` names: a checkpoint, a run folder, or "auto", which is
// that of the configuration if it has any. None if there is nothing to go on
// from. Throws AgreedError if it is not there, damaged, or of another job.
std::optional<SavedRun> find_saved_run(Communicator& comm,
                                       const TrainConfig& config,
                                       const std::string& resume);

// Puts weights, optimizer and all that is kept between steps into a session
// that was made with it; gives up its tensors. Throws std::exception for what
// is wrong on this rank.
void load_saved_run(SavedRun& saved, Session& session);

// Saves a session into its run folder. Returns the folder, on rank 0. Throws
// AgreedError, naming the last good checkpoint, if a rank cannot write.
std::string save_checkpoint(Session& session, double best_accuracy);

}  // namespace sluice
