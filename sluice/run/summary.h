#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sluice/run/score.h"

namespace sluice {

// What a run came to.
struct TrainSummary {
  std::string folder;
  std::string model;
  std::uint64_t parameters = 0;
  std::uint64_t ranks = 0;
  std::string gpu_link;     // "nccl", "mpi", or "" where no GPUs exchange
  std::uint64_t steps = 0;  // of all runs that it resumed
  double epochs = 0;
  double seconds = 0;  // of steps, without evaluation and checkpoints
  double loss = 0;     // of the last steps that were logged
  // Of the last evaluation, and the best of all runs that it resumed; NaN if
  // there was none.
  double eval_loss = std::numeric_limits<double>::quiet_NaN();
  std::vector<NamedScore> eval_scores;  // the one that counts first
  double best_score = std::numeric_limits<double>::quiet_NaN();  // of that one
  std::string unit = "samples";  // what they are: images, tokens
  double samples_per_s = 0;
  double step_s = 0;
  double exposed_s = 0;
  double bytes_per_step = 0;
  double density = 0;
  double k_hat_over_k = 0;
  // Of what the sparsifier was to select from, the share that the last plan
  // sends whole; see share_sent_whole().
  double trained_dense = 0;
  std::uint64_t memory_bytes = 0;  // beside model and optimizer, of this rank
  std::uint64_t skipped = 0;
  // Training samples that could not be read, so that others took their place.
  std::uint64_t replaced = 0;
  std::uint64_t weights = 0;  // hash of them
  bool stopped = false;       // by a signal, before its end
  std::string checkpoint;
};

std::string to_json(const TrainSummary& summary);

// For people, of such a share: "trained dense" if it is 1, "trained 97 % dense"
// if it is above a half, else nothing.
std::string dense_label(double share);

}  // namespace sluice
