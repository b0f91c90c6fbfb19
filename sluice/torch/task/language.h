#pragma once

#include "sluice/torch/task/task.h"

namespace sluice {

// Which token comes next in a text. Models that carry a state see columns of
// it, others blocks in random order (token_batches.h). Perplexity per token
// and, of texts that are not cut into words, bits per byte, on the valid split.
std::unique_ptr<Task> make_language_task(const TrainConfig& config);
std::vector<Description> language_datasets();

}  // namespace sluice
