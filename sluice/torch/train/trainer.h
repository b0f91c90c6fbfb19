#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/config/config.h"
#include "sluice/core/params.h"
#include "sluice/run/summary.h"

// Training, seen from a program that does not know torch.

namespace sluice {

struct TrainOptions {
  // A run folder or a checkpoint to go on from; empty: start anew.
  std::string resume;
  bool overwrite = false;        // a run that is in the folder already
  bool lines_to_stderr = false;  // standard output is for something else
  // Treats the host as a device that computes beside it: batches are fetched
  // ahead, losses read late, gradients left alone where nothing is exchanged.
  // So the way of a GPU can be tested without one.
  bool as_device = false;
  std::string about;  // what runs it, for about.json; empty: none is written
  // Called on rank 0 once the run folder is there, with its path; may be null.
  std::function<void(const std::string& folder)> began;
  // Becomes true when the run should save itself and end; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// Throws what is wrong with a configuration that no rank is needed to see:
// names, parameters, files of data. Returns what it found, in lines for people.
std::string check_training(const TrainConfig& config);

// Trains, as one of the ranks. The summary's numbers are of all ranks, on rank
// 0. Throws AgreedError for what all ranks know of, CommError if a rank is
// lost, and std::runtime_error for what went wrong on this rank alone.
TrainSummary run_training(const TrainConfig& config,
                          const TrainOptions& options, Communicator& comm);

// For listings.
std::vector<Description> model_descriptions();
std::vector<Description> task_descriptions();
std::vector<Description> dataset_descriptions();
std::vector<Description> optimizer_descriptions();
std::vector<Description> lr_schedule_descriptions();
// Of the LibTorch that this was built with.
std::string torch_library_version();

}  // namespace sluice
