#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/config/config.h"
#include "sluice/data/input.h"
#include "sluice/run/classes.h"
#include "sluice/run/metrics.h"
#include "sluice/torch/data/batch.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/models/model.h"

namespace sluice {

// Which part of what is evaluated, and how.
struct EvaluationShare {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
  std::uint64_t batch = 32;
  LoaderOptions loading{};
  std::string_view split{};  // one of Task::splits(); empty: the first
};

// What a job is made of: samples and how they become batches, the loss, and
// the scores.
//
// Thread-safe once made.
class Task {
 public:
  static constexpr std::string_view kKind = "task";
  // What a model carries from one batch to the next: the state of a recurrent
  // one. Empty at the beginning of an epoch.
  using Carried = std::vector<torch::Tensor>;

  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual ModelInput input() const = 0;
  // A hash of what can be told of the samples without looking at them.
  virtual std::uint64_t fingerprint() const = 0;
  // What evaluations give, the one that counts first.
  virtual std::span<const std::string_view> scores() const = 0;
  // What training steps tell of themselves; "": nothing but the loss.
  virtual std::string_view training_score() const = 0;
  // What samples are, for people: "images", "tokens".
  virtual std::string_view unit() const = 0;
  // Whether a batch takes so long that threads of their own should make it.
  virtual bool is_slow() const { return false; }

  // Whether batches come in many sizes.
  virtual bool shapes_vary() const { return false; }

  // Throws std::invalid_argument, naming others, for a model of another kind.
  virtual void check(const Model& model) const = 0;

  // The batches that a rank trains `model` with.
  virtual std::unique_ptr<BatchSource> training(
      const Model& model, const SamplerOptions& sampling,
      const LoaderOptions& loading) const = 0;

  struct Loss {
    torch::Tensor mean;   // over the samples of a batch; has a gradient
    torch::Tensor score;  // the sum of training_score, if there is one
    double samples = 0;
  };
  // Of a batch that is where the model is.
  virtual Loss loss(Model& model, const Batch& batch,
                    Carried& carried) const = 0;

  // Sums over what rank share.rank of share.ranks evaluates: together they see
  // every sample once. The model is in evaluation mode and needs no gradients.
  // `loss` and scores are sums.
  virtual Evaluation evaluate(Model& model, const torch::Device& device,
                              const EvaluationShare& share) const = 0;

  // The parts of the data that evaluate() knows; runs are evaluated on the
  // first.
  virtual std::span<const std::string_view> splits() const;

  // What was left out of the data or done otherwise than asked for, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  // Names of classes or labels, in their order; none: they have no names.
  virtual std::vector<std::string> labels() const { return {}; }
  // The classes of samples and how many there are of each, in their order;
  // none: samples have no classes.
  virtual std::vector<ClassCount> classes() const { return {}; }

 protected:
  Task() = default;
  // Scores of scores(), at 0.
  Evaluation nothing_yet() const;
};

// The model as one of the kind that a task needs. Throws std::invalid_argument.
template <class Kind>
Kind& model_as(Model& model) {
  auto* own = dynamic_cast<Kind*>(&model);
  require(own != nullptr, "[train] these data need ", Kind::kSuch,
          ", and --model is of another kind");
  return *own;
}
template <class Kind>
const Kind& model_as(const Model& model) {
  return model_as<Kind>(const_cast<Model&>(model));
}

// A kind of task, and the data sets that it has.
struct TaskEntry {
  std::string_view name;
  std::string_view summary;
  std::vector<Description> (*datasets)();
  std::unique_ptr<Task> (*make)(const TrainConfig& config);
};

// Every kind of task there is.
std::span<const TaskEntry> tasks();

// The task of the configuration's data set. Throws std::invalid_argument for
// one that is unknown, std::runtime_error, saying which files it wants and
// where to get them, if they are not there or not what they should be.
std::unique_ptr<Task> make_task(const TrainConfig& config);

}  // namespace sluice
