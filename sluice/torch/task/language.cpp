#include "sluice/torch/task/language.h"

#include <array>
#include <map>

#include "sluice/text/text_corpus.h"
#include "sluice/torch/task/token_batches.h"

namespace sluice {
namespace {

// What ADTopk's and PyTorch's jobs evaluate with, whatever they train with.
constexpr std::uint64_t kEvaluationColumns = 10;

constexpr std::array<std::string_view, 2> kLanguageSplits = {"valid", "test"};
constexpr std::array<std::string_view, 2> kLanguageScores = {"bits_per_byte",
                                                             "perplexity"};

// Whether tokens are words, which leave out how they were spelled.
bool has_words(const std::string& dataset) {
  for (const auto& [key, value] : parse_spec(dataset).params) {
    if (key == "tokens") return value == "word";
  }
  return true;
}

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const TrainConfig& config)
      : corpus_(make_text_corpus(config.dataset, {config.data_dir})),
        words_(has_words(config.dataset)),
        length_(config.length > 0 ? config.length : corpus_->input().length) {
    if (words_) return;
    for (const TextSplit split : {TextSplit::kValid, TextSplit::kTest}) {
      // All but the first token are predicted.
      const auto predicted = corpus_->tokens(split).subspan(1);
      bytes_[split] =
          static_cast<double>(corpus_->tokenizer().decode(predicted).size());
    }
  }

  ModelInput input() const override {
    return TokenInput{corpus_->input().vocabulary, length_};
  }
  std::uint64_t fingerprint() const override { return corpus_->fingerprint(); }
  std::span<const std::string_view> scores() const override {
    const std::span all(kLanguageScores);
    return words_ ? all.last(1) : all;
  }
  std::string_view training_score() const override { return "perplexity"; }
  std::string_view unit() const override { return "tokens"; }
  // Other tokens have files of their own.
  std::vector<std::string> labels() const override {
    std::vector<std::string> all;
    const auto words =
        static_cast<std::int32_t>(words_ ? corpus_->input().vocabulary : 0);
    for (std::int32_t id = 0; id < words; ++id) {
      all.push_back(corpus_->tokenizer().decode(std::span(&id, 1)));
    }
    return all;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    if (corpus_->unknown() + corpus_->dropped() > 0) {
      all.push_back(concat(corpus_->unknown(), " words became <unk>, and ",
                           corpus_->dropped(),
                           " were left out: the vocabulary lacks them"));
    }
    return all;
  }

  std::span<const std::string_view> splits() const override {
    return kLanguageSplits;
  }

  void check(const Model& model) const override {
    model_as<LanguageModel>(model);
  }
  std::unique_ptr<BatchSource> training(const Model& model,
                                        const SamplerOptions& sampling,
                                        const LoaderOptions&) const override {
    const auto text = corpus_->tokens(TextSplit::kTrain);
    const auto length = static_cast<std::uint64_t>(length_);
    return model_as<LanguageModel>(model).is_recurrent()
               ? column_batches(text, length, sampling)
               : block_batches(text, length, sampling);
  }

  Loss loss(Model& model, const Batch& batch, Carried& carried) const override {
    const torch::Tensor mean =
        cross_entropy(model, batch.tensors, carried, at::Reduction::Mean);
    const auto tokens = static_cast<double>(batch.tensors[1].numel());
    return {mean, mean.detach() * tokens, tokens};
  }

  Evaluation evaluate(Model& model, const torch::Device& device,
                      const EvaluationShare& share) const override {
    Evaluation out = nothing_yet();
    const bool recurrent = model_as<LanguageModel>(model).is_recurrent();
    const TextSplit split = share.split == name_of(TextSplit::kTest)
                                ? TextSplit::kTest
                                : TextSplit::kValid;
    const auto text = corpus_->tokens(split);
    TokenEvaluation batches(text, static_cast<std::uint64_t>(length_),
                            recurrent ? kEvaluationColumns : 0, share.batch,
                            share.rank, share.ranks);
    // Read at the end, so that a device need not wait for the host.
    torch::Tensor sum =
        torch::zeros({}, torch::dtype(torch::kFloat64).device(device));
    Carried carried;
    while (const auto batch = batches.next()) {
      std::vector<torch::Tensor> tensors;
      for (const torch::Tensor& t : batch->tensors) {
        tensors.push_back(t.to(device));
      }
      sum += cross_entropy(model, tensors, carried, at::Reduction::Sum);
      out.samples += static_cast<double>(
          batch->tensors[1].ne(kNoToken).sum().item<std::int64_t>());
    }
    out.loss = sum.item<double>();
    for (Score& s : out.scores) {
      s.sum = out.loss;
      s.weight = out.samples;
      // Each rank's share of the bytes, by tokens: they add up to all.
      if (s.kind->name == "bits_per_byte") {
        s.weight *= bytes_.at(split) / static_cast<double>(text.size() - 1);
      }
    }
    return out;
  }

 private:
  static torch::Tensor cross_entropy(Model& model,
                                     const std::vector<torch::Tensor>& tensors,
                                     Carried& carried,
                                     at::Reduction::Reduction reduction) {
    const torch::Tensor scores =
        model_as<LanguageModel>(model).forward(tensors[0], carried);
    return at::cross_entropy_loss(scores.flatten(0, 1), tensors[1].flatten(),
                                  {}, reduction, kNoToken);
  }

  std::unique_ptr<TextCorpus> corpus_;
  bool words_;
  std::int64_t length_;
  std::map<TextSplit, double> bytes_;  // unless tokens are words
};

}  // namespace

std::unique_ptr<Task> make_language_task(const TrainConfig& config) {
  return std::make_unique<LanguageTask>(config);
}

std::vector<Description> language_datasets() {
  std::vector<Description> all;
  for (const TextCorpusEntry& entry : text_corpora()) {
    all.push_back(entry.describe());
  }
  return all;
}

}  // namespace sluice
