#include "sluice/torch/task/vision.h"

#include <array>

#include "sluice/core/hash.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 2> kScores = {"accuracy", "top5"};
// Of few classes nearly all would be among them.
constexpr std::int64_t kTop = 5;
constexpr std::int64_t kMany = 100;

class VisionTask final : public Task {
 public:
  explicit VisionTask(const TrainConfig& config)
      : test_(make_dataset(config.dataset, {Split::kTest, config.data_dir})),
        train_(make_dataset(config.dataset, {Split::kTrain, config.data_dir})) {
  }

  ModelInput input() const override { return train_->input(); }
  std::uint64_t fingerprint() const override {
    return mix64(train_->fingerprint(), test_->fingerprint());
  }
  std::span<const std::string_view> scores() const override {
    return std::span(kScores).first(train_->input().classes >= kMany ? 2 : 1);
  }
  std::string_view training_score() const override { return kScores[0]; }
  std::string_view unit() const override { return "images"; }
  std::vector<std::string> labels() const override {
    return train_->class_names();
  }
  std::vector<ClassCount> classes() const override {
    const auto names = train_->class_names();
    std::vector<ClassCount> all(
        static_cast<std::size_t>(train_->input().classes));
    for (std::size_t c = 0; c < all.size(); ++c) {
      all[c].name = c < names.size() ? names[c] : std::to_string(c);
    }
    for (std::size_t i = 0; i < train_->size(); ++i) {
      ++all[static_cast<std::size_t>(train_->label(i))].train;
    }
    for (std::size_t i = 0; i < test_->size(); ++i) {
      ++all[static_cast<std::size_t>(test_->label(i))].test;
    }
    return all;
  }
  bool is_slow() const override { return train_->is_slow(); }

  void check(const Model& model) const override { model_as<ImageModel>(model); }
  std::unique_ptr<BatchSource> training(
      const Model&, const SamplerOptions& sampling,
      const LoaderOptions& loading) const override {
    return std::make_unique<Loader>(*train_, sampling, loading);
  }

  Loss loss(Model& model, const Batch& batch, Carried&) const override {
    const torch::Tensor& labels = batch.tensors[1];
    const torch::Tensor scores = forward(model, batch.tensors[0]);
    return {torch::nn::functional::cross_entropy(scores, labels),
            count_correct(scores.detach(), labels),
            static_cast<double>(labels.size(0))};
  }

  Evaluation evaluate(Model& model, const torch::Device& device,
                      const EvaluationShare& share) const override {
    Evaluation out = nothing_yet();
    // Read at the end, so that a device need not wait for the host.
    torch::Tensor sums =
        torch::zeros({3}, torch::dtype(torch::kFloat64).device(device));
    EvaluationLoader loader(
        *test_, evaluation_partition(test_->size(), share.rank, share.ranks),
        share.batch, share.loading);
    while (const auto samples = loader.next()) {
      const torch::Tensor labels = samples->tensors[1].to(device);
      const torch::Tensor scores =
          forward(model, samples->tensors[0].to(device));
      const torch::Tensor loss = torch::nn::functional::cross_entropy(
          scores, labels,
          torch::nn::functional::CrossEntropyFuncOptions().reduction(
              torch::kSum));
      sums += torch::stack({loss, count_correct(scores, labels),
                            count_correct(scores, labels, kTop)});
      out.samples += static_cast<double>(scores.size(0));
      out.replaced += static_cast<double>(samples->outcome.replaced);
    }
    out.loss = sums[0].item<double>();
    for (std::size_t i = 0; i < out.scores.size(); ++i) {
      out.scores[i].sum = sums[static_cast<std::int64_t>(i) + 1].item<double>();
      out.scores[i].weight = out.samples;
    }
    return out;
  }

 private:
  static torch::Tensor forward(Model& model, const torch::Tensor& images) {
    return model_as<ImageModel>(model).forward(images);
  }

  std::unique_ptr<Dataset> test_;  // first: what is wrong is found sooner
  std::unique_ptr<Dataset> train_;
};

}  // namespace

std::unique_ptr<Task> make_vision_task(const TrainConfig& config) {
  require(config.length == 0,
          "[train] --length is for texts, and the data are images");
  return std::make_unique<VisionTask>(config);
}

std::vector<Description> vision_datasets() {
  std::vector<Description> all;
  for (const DatasetEntry& entry : datasets()) all.push_back(entry.describe());
  return all;
}

torch::Tensor count_correct(const torch::Tensor& scores,
                            const torch::Tensor& labels, std::int64_t most) {
  if (most == 1) return scores.argmax(1).eq(labels).sum();
  const auto best = std::get<1>(scores.topk(std::min(most, scores.size(1)), 1));
  return best.eq(labels.unsqueeze(1)).sum();
}

}  // namespace sluice
