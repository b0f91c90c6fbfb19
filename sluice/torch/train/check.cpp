#include "sluice/comm/emulated/emulated.h"
#include "sluice/config/lr_schedule.h"
#include "sluice/config/recipe.h"
#include "sluice/feedback/feedback.h"
#include "sluice/study/study.h"
#include "sluice/sync/bucket_sync.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/task/task.h"
#include "sluice/torch/train/device.h"
#include "sluice/torch/train/planned_model.h"
#include "sluice/torch/train/trainer.h"

namespace sluice {
namespace {

template <class Entries>
std::vector<Description> describe_all(const Entries& entries) {
  std::vector<Description> all;
  for (const auto& entry : entries) all.push_back(entry.describe());
  return all;
}

// Feedbacks cannot be made without a bucket.
void check_feedback(const std::string& text) {
  const auto backend = make_cpu_backend({1, ""});
  Arena arena(*backend, 1);
  Bucket bucket;
  bucket.add(0, Shape3{}, 0);
  make_feedback(text, {*backend, arena, bucket, make_sparsifier("topk")});
}

void check_network(const std::string& text) {
  if (text == "nominal" || text == "measured") return;
  try {
    parse_link(text);
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument(
        concat("[train] --network must be nominal, measured, or ALPHA,RATE as "
               "in 50us,1Gbit, got '",
               text, "'"));
  }
}

std::string describe_found(const TrainConfig& c, const Task& task,
                           const PlannedModel& model) {
  std::string text =
      concat("[train] ", c.model, ": ", count_elements(model.parameters),
             " parameters in ", model.tensors.size(), " tensors\n[train] ",
             c.dataset, ": ");
  const auto classes = task.classes();
  text += classes.empty() ? concat(task.unit(), ", as asked for")
                          : describe_classes(classes, task.unit());
  for (const std::string& note : task.notes()) text += "\n[train] " + note;
  text +=
      concat("\n[train] ", c.optimizer, " at ", c.lr, " (", c.lr_schedule,
             "), ", c.workers, " workers of batch ", c.batch_size, ", ",
             c.sparsifier == "none" ? "dense"
                                    : concat(c.sparsifier, " at ", c.density),
             ", on ", c.device);
  return text + "\n[train] nothing is wrong with it, and nothing was run\n";
}

}  // namespace

std::string check_training(const TrainConfig& given) {
  TrainConfig config = given;
  choose_recipe(config);
  choose_device(config);
  check_config(config);
  check_feedback(config.feedback);
  check_network(config.network);
  device_of(config, 0);
  const auto task = make_task(config);
  const PlannedModel model = make_planned_model(config, task->input());
  task->check(*model.module);
  for (const Decision& decision : model.decisions) {
    for (const BucketPlan& bucket : decision.plan.buckets) {
      check_values(bucket);
      for (const std::string& rule : bucket.turns) make_sparsifier(rule);
    }
  }
  make_optimizer(config.optimizer, model.parameters);
  if (!config.study.empty()) make_study(config.study, {model.tensors});
  return describe_found(config, *task, model);
}

std::vector<Description> model_descriptions() { return describe_all(models()); }
std::vector<Description> task_descriptions() {
  std::vector<Description> all;
  for (const TaskEntry& task : tasks()) {
    all.push_back({task.name, task.summary, {}});
  }
  return all;
}
std::vector<Description> dataset_descriptions() {
  std::vector<Description> all;
  for (const TaskEntry& task : tasks()) {
    const auto own = task.datasets();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}
std::vector<Description> optimizer_descriptions() {
  return describe_all(optimizers());
}
std::vector<Description> lr_schedule_descriptions() {
  return describe_all(lr_schedules());
}

std::string torch_library_version() { return TORCH_VERSION; }

}  // namespace sluice
