#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/run/metrics.h"

// Models that have been trained, seen from a program that does not know torch.

namespace sluice {

// A run folder, a checkpoint, or weights as import_into takes them; and fields
// of the configuration with their values, over those of the run or the
// defaults. Weights need `model` and `dataset`.
struct TrainedSource {
  std::string path;
  std::vector<std::pair<std::string, std::string>> changes;
};

struct TrainedScores {
  std::string source;  // the checkpoint or the file
  std::string says;    // for people: what the weights are
  std::string model;
  std::string dataset;
  std::string split;
  std::string unit;
  Evaluation evaluation;
};

// Loss (the mean) and scores on a part of the data set, "valid" or "test"; "":
// the one that runs are evaluated on. Throws std::invalid_argument, saying
// which parts there are, and std::runtime_error.
TrainedScores evaluate_trained(const TrainedSource& source,
                               const std::string& split);

struct ExportedFiles {
  std::string source;
  std::string says;
  std::vector<std::string> written;  // for people, a line each
};

// Writes the weights as safetensors, named as others name them, and beside the
// file config.json and, if there are labels, labels.json.
ExportedFiles export_trained(const TrainedSource& source,
                             const std::string& path);

}  // namespace sluice
