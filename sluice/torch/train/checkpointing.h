#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/run/rank_part.h"
#include "sluice/torch/train/session.h"

// Checkpoints of a session. Calls of all ranks together.

namespace sluice {

// A checkpoint to go on from.
struct SavedRun {
  std::string folder;
  ModelFile model;
  RankState kept;                  // of this rank
  std::vector<std::string> notes;  // what people should know, on rank 0
};

// The one that `resume` names: a checkpoint, a run folder, or "auto", which is
// that of the configuration if it has any. Of a run folder the latest that all
// ranks can read; the notes say why others were passed over. None if there is
// no checkpoint to go on from. Throws AgreedError if none is there, none can be
// read, or it is of another job.
std::optional<SavedRun> find_saved_run(Communicator& comm,
                                       const TrainConfig& config,
                                       const std::string& resume);

// Puts weights, optimizer and all that is kept between steps into a session
// that was made with it; gives up its tensors. Throws std::exception for what
// is wrong on this rank.
void load_saved_run(SavedRun& saved, Session& session);

// Sets aside checkpoints of the session's run folder that it does not go on
// from, and notes so. On rank 0, once the folder is this run's. Throws
// std::runtime_error.
void abandon_others(SavedRun& saved, const Session& session);

// Saves a session into its run folder. Returns the folder, on rank 0. Throws
// AgreedError, naming the last good checkpoint, if a rank cannot write.
std::string save_checkpoint(Session& session, double best_score);

}  // namespace sluice
