#include <array>

#include "sluice/torch/task/language.h"
#include "sluice/torch/task/questions.h"
#include "sluice/torch/task/speech.h"
#include "sluice/torch/task/task.h"
#include "sluice/torch/task/vision.h"

namespace sluice {
namespace {

constexpr std::array kTasks = {
    TaskEntry{"vision", "tells classes of images apart", &vision_datasets,
              &make_vision_task},
    TaskEntry{"language", "says which token comes next", &language_datasets,
              &make_language_task},
    TaskEntry{"questions", "finds the answer in a paragraph",
              &question_datasets, &make_question_task},
    TaskEntry{"speech", "spells what is said", &speech_datasets,
              &make_speech_task},
};

}  // namespace

std::span<const TaskEntry> tasks() { return kTasks; }

std::unique_ptr<Task> make_task(const TrainConfig& config) {
  const std::string name = parse_spec(config.dataset).name;
  std::vector<std::string_view> known;
  for (const TaskEntry& task : kTasks) {
    for (const Description& dataset : task.datasets()) {
      if (dataset.name == name) return task.make(config);
      known.push_back(dataset.name);
    }
  }
  fail_unknown("dataset", name, known);
}

std::span<const std::string_view> Task::splits() const {
  static constexpr std::array<std::string_view, 1> kOnly = {"test"};
  return kOnly;
}

Evaluation Task::nothing_yet() const {
  Evaluation none;
  for (const std::string_view name : scores()) {
    none.scores.push_back({&score_kind(name)});
  }
  return none;
}

}  // namespace sluice
