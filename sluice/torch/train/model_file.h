#pragma once

#include "sluice/run/manifest.h"
#include "sluice/run/run_state.h"
#include "sluice/torch/optim/optimizer.h"

namespace sluice {

// What a checkpoint holds once: weights, optimizer, and where the run was.
struct ModelFile : RunState {
  NamedTensors parameters;
  NamedTensors buffers;
  NamedTensors optimizer;
};

std::string model_file_path(const std::string& folder);
// Returns the digest of the file.
std::uint64_t write_model_file(const std::string& path, const ModelFile& file);

// Throws std::runtime_error if it is not there, damaged, something else, or not
// of the checkpoint of the manifest.
ModelFile read_model_file(const std::string& path, const Manifest& manifest);

// Throws std::invalid_argument if a run of this configuration cannot go on from
// the file.
void check_compatible(const ModelFile& file, const TrainConfig& config);

}  // namespace sluice
