#pragma once

#include <atomic>
#include <limits>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/core/params.h"
#include "sluice/torch/train/config.h"

// Training, seen from a program that does not know torch.

namespace sluice {

// What a run came to.
struct TrainSummary {
  std::string folder;
  std::string model;
  std::uint64_t parameters = 0;
  std::uint64_t ranks = 0;
  std::uint64_t steps = 0;  // of all runs that it resumed
  double epochs = 0;
  double seconds = 0;  // of steps, without evaluation and checkpoints
  double loss = 0;     // of the last steps that were logged
  // Of the last evaluation, and the best of all runs that it resumed; NaN if
  // there was none.
  double eval_loss = std::numeric_limits<double>::quiet_NaN();
  double eval_accuracy = std::numeric_limits<double>::quiet_NaN();
  double best_accuracy = std::numeric_limits<double>::quiet_NaN();
  double samples_per_s = 0;
  double step_s = 0;
  double exposed_s = 0;
  double bytes_per_step = 0;
  double density = 0;
  double k_hat_over_k = 0;
  std::uint64_t memory_bytes = 0;  // beside model and optimizer, of this rank
  std::uint64_t skipped = 0;
  // Training samples that could not be read, so that others took their place.
  std::uint64_t replaced = 0;
  std::uint64_t weights = 0;  // hash of them
  bool stopped = false;       // by a signal, before its end
  std::string checkpoint;
};

struct TrainOptions {
  // A run folder or a checkpoint to go on from; empty: start anew.
  std::string resume;
  bool overwrite = false;        // a run that is in the folder already
  bool lines_to_stderr = false;  // standard output is for something else
  // Becomes true when the run should save itself and end; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// Throws what is wrong with a configuration that no rank is needed to see:
// names, parameters, files of data.
void check_training(const TrainConfig& config);

// Trains, as one of the ranks. The summary's numbers are of all ranks, on rank
// 0. Throws AgreedError for what all ranks know of, CommError if a rank is
// lost, and std::runtime_error for what went wrong on this rank alone.
TrainSummary run_training(const TrainConfig& config,
                          const TrainOptions& options, Communicator& comm);

std::string to_json(const TrainSummary& summary);

// For listings.
std::vector<Description> model_descriptions();
std::vector<Description> dataset_descriptions();
std::vector<Description> optimizer_descriptions();
std::vector<Description> lr_schedule_descriptions();

}  // namespace sluice
