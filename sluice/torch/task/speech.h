#pragma once

#include "sluice/torch/task/task.h"

namespace sluice {

// Clips and what is said in them, spelled by CTC. WER and CER, of greedy
// decoding, as means over clips (as published for AN4) and of the corpus.
std::unique_ptr<Task> make_speech_task(const TrainConfig& config);
std::vector<Description> speech_datasets();

}  // namespace sluice
