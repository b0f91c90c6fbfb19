#pragma once

#include "sluice/torch/task/task.h"

namespace sluice {

// Images and their classes; accuracy, and of 100 classes or more top-5.
std::unique_ptr<Task> make_vision_task(const TrainConfig& config);
std::vector<Description> vision_datasets();

// How many rows of `scores` have their label among the `most` highest: one
// int64.
torch::Tensor count_correct(const torch::Tensor& scores,
                            const torch::Tensor& labels, std::int64_t most = 1);

}  // namespace sluice
