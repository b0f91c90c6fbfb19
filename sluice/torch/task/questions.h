#pragma once

#include "sluice/torch/task/task.h"

namespace sluice {

// Where in a paragraph the answer to a question stands: SQuAD 1.1, or any text
// in its form. Exact match and F1 by the official rules, on dev-v1.1.json.
std::unique_ptr<Task> make_question_task(const TrainConfig& config);
std::vector<Description> question_datasets();

}  // namespace sluice
