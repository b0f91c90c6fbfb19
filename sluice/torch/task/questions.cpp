#include "sluice/torch/task/questions.h"

#include <algorithm>
#include <array>

#include "sluice/core/hash.h"
#include "sluice/text/squad_windows.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 2> kQuestionScores = {"f1",
                                                             "exact_match"};

struct Squad {
  static constexpr std::string_view kKind = "dataset";
  static constexpr std::string_view kName = "squad";
  static constexpr std::string_view kSummary =
      "questions about paragraphs, SQuAD 1.1: train-v1.1.json, dev-v1.1.json "
      "and vocab.txt (WordPiece)";
  struct Params {
    std::int64_t length = 384;
    std::int64_t stride = 128;
    std::int64_t query = 64;
  };
  static ParamList list(Params& p) {
    return {
        {"length", &p.length, "tokens of a sequence", 8, 65536},
        {"stride", &p.stride, "tokens from one window to the next", 1, 65536},
        {"query", &p.query, "tokens of a question at most", 1, 65536}};
  }
};

SquadWindowOptions window_options(const TrainConfig& config) {
  const Squad::Params p = params_from<Squad>(parse_spec(config.dataset));
  const std::int64_t length = config.length > 0 ? config.length : p.length;
  return {static_cast<std::size_t>(length), static_cast<std::size_t>(p.stride),
          static_cast<std::size_t>(p.query)};
}

// One split.
struct Questions {
  Questions(const std::string& path, WordPieceTokenizer& tokenizer,
            const SquadWindowOptions& options)
      : data(read_squad(path)),
        windows(make_squad_windows(data, tokenizer, options)) {}

  std::uint64_t fingerprint() const {
    std::uint64_t hash = mix64(data.questions.size(), windows.size());
    for (const SquadWindow& w : windows) {
      hash = mix64(hash, w.start, w.end);
      for (const std::int32_t t : w.tokens) {
        hash = mix64(hash, static_cast<std::uint64_t>(t));
      }
    }
    return hash;
  }
  // The first window of a question that is not before it.
  std::size_t window_of(std::uint64_t question) const {
    const auto at = std::partition_point(
        windows.begin(), windows.end(),
        [&](const SquadWindow& w) { return w.question < question; });
    return static_cast<std::size_t>(at - windows.begin());
  }

  SquadData data;
  std::vector<SquadWindow> windows;
};

// Lengths of batches are multiples of this: kernels of attention are planned
// once for each length that there is.
constexpr std::size_t kLengths = 32;

// Tokens, segments and mask, batch x the longest of them and some padding, up
// to `most`, and the positions of the answers' first and last tokens; all
// int64.
Batch make_windows(std::span<const SquadWindow* const> windows,
                   std::int64_t pad, std::size_t most) {
  const auto count = static_cast<std::int64_t>(windows.size());
  std::size_t longest = 0;
  for (const SquadWindow* w : windows) {
    longest = std::max(longest, w->tokens.size());
  }
  longest = std::min((longest + kLengths - 1) / kLengths * kLengths, most);
  const auto length = static_cast<std::int64_t>(longest);
  torch::Tensor tokens = torch::full({count, length}, pad, torch::kInt64);
  torch::Tensor segments = torch::zeros_like(tokens);
  torch::Tensor mask = torch::zeros_like(tokens);
  std::vector<std::int64_t> starts, ends;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const SquadWindow& w = *windows[i];
    const std::size_t row = i * longest;
    for (std::size_t t = 0; t < w.tokens.size(); ++t) {
      tokens.data_ptr<std::int64_t>()[row + t] = w.tokens[t];
      segments.data_ptr<std::int64_t>()[row + t] = w.segment(t);
      mask.data_ptr<std::int64_t>()[row + t] = 1;
    }
    starts.push_back(static_cast<std::int64_t>(w.start));
    ends.push_back(static_cast<std::int64_t>(w.end));
  }
  return {{tokens, segments, mask, torch::tensor(starts), torch::tensor(ends)},
          {},
          {}};
}

class WindowBatches final : public BatchSource {
 public:
  WindowBatches(const Questions& questions, std::int64_t pad, std::size_t most,
                const SamplerOptions& options)
      : questions_(questions),
        pad_(pad),
        most_(most),
        sampler_(questions.windows.size(), options) {}

  std::uint64_t steps_per_epoch() const override {
    return sampler_.steps_per_epoch();
  }
  const Position& position() const override { return sampler_.position(); }
  void seek(const Position& position) override { sampler_.seek(position); }
  Batch next() override {
    std::vector<const SquadWindow*> windows;
    for (const std::uint64_t i : sampler_.next()) {
      windows.push_back(&questions_.windows[i]);
    }
    return make_windows(windows, pad_, most_);
  }

 private:
  const Questions& questions_;
  std::int64_t pad_;
  std::size_t most_;
  Sampler sampler_;
};

class QuestionTask final : public Task {
 public:
  explicit QuestionTask(const TrainConfig& config)
      : options_(window_options(config)),
        tokenizer_({}, {config.data_dir}),
        train_(config.data_dir + "/train-v1.1.json", tokenizer_, options_),
        test_(config.data_dir + "/dev-v1.1.json", tokenizer_, options_) {}

  ModelInput input() const override {
    return TokenInput{tokenizer_.size(),
                      static_cast<std::int64_t>(options_.length)};
  }
  std::uint64_t fingerprint() const override {
    return mix64(train_.fingerprint(), test_.fingerprint());
  }
  std::span<const std::string_view> scores() const override {
    return kQuestionScores;
  }
  std::string_view training_score() const override { return ""; }
  std::string_view unit() const override { return "windows"; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    for (const Questions* part : {&train_, &test_}) {
      if (part->data.skipped.empty()) continue;
      all.push_back(concat(part->data.skipped.size(),
                           " questions were left out, whose answers do not "
                           "stand where the file says, such as ",
                           part->data.skipped[0]));
    }
    return all;
  }

  void check(const Model& model) const override { model_as<SpanModel>(model); }
  std::unique_ptr<BatchSource> training(const Model&,
                                        const SamplerOptions& sampling,
                                        const LoaderOptions&) const override {
    return std::make_unique<WindowBatches>(train_, pad(), options_.length,
                                           sampling);
  }

  Loss loss(Model& model, const Batch& batch, Carried&) const override {
    const auto count = static_cast<double>(batch.tensors[3].size(0));
    return {cross_entropy(forward(model, batch), batch, at::Reduction::Mean),
            {},
            count};
  }

  Evaluation evaluate(Model& model, const torch::Device& device,
                      const EvaluationShare& share) const override {
    Evaluation out = nothing_yet();
    const Partition mine = evaluation_partition(test_.data.questions.size(),
                                                share.rank, share.ranks);
    const std::size_t begin = test_.window_of(mine.begin);
    const std::size_t end = test_.window_of(mine.end);
    std::vector<torch::Tensor> scores;  // per window: 2 x its tokens
    for (std::size_t at = begin; at < end; at += share.batch) {
      std::vector<const SquadWindow*> windows;
      for (std::size_t w = at; w < std::min<std::size_t>(at + share.batch, end);
           ++w) {
        windows.push_back(&test_.windows[w]);
      }
      Batch batch = make_windows(windows, pad(), options_.length);
      for (torch::Tensor& t : batch.tensors) t = t.to(device);
      const torch::Tensor spans = forward(model, batch);
      out.loss +=
          cross_entropy(spans, batch, at::Reduction::Sum).item<double>();
      out.samples += static_cast<double>(windows.size());
      const torch::Tensor host =
          spans.to(torch::kCPU, torch::kFloat32).transpose(1, 2).contiguous();
      for (std::size_t i = 0; i < windows.size(); ++i) {
        scores.push_back(host[static_cast<std::int64_t>(i)]);
      }
    }
    for (std::uint64_t q = mine.begin; q < mine.end; ++q) {
      judge(q, begin, scores, out);
    }
    return out;
  }

 private:
  std::int64_t pad() const { return tokenizer_.special().pad.value_or(0); }

  static torch::Tensor forward(Model& model, const Batch& batch) {
    return model_as<SpanModel>(model).forward(
        batch.tensors[0], batch.tensors[1], batch.tensors[2]);
  }

  // The mean of those of first and last tokens.
  static torch::Tensor cross_entropy(const torch::Tensor& spans,
                                     const Batch& batch,
                                     at::Reduction::Reduction reduction) {
    const auto one = [&](std::int64_t which) {
      return at::cross_entropy_loss(
          spans.select(2, which),
          batch.tensors[static_cast<std::size_t>(3 + which)], {}, reduction);
    };
    return (one(0) + one(1)) / 2;
  }

  // Adds the scores of a question; `scores` begin with window `first`.
  void judge(std::uint64_t question, std::size_t first,
             std::span<const torch::Tensor> scores, Evaluation& out) const {
    const std::size_t begin = test_.window_of(question);
    const std::size_t end = test_.window_of(question + 1);
    std::vector<SpanScores> spans;
    for (std::size_t w = begin; w < end; ++w) {
      const torch::Tensor& s = scores[w - first];
      const float* values = s.data_ptr<float>();
      const std::size_t tokens = test_.windows[w].tokens.size();
      spans.push_back({{values, tokens}, {values + s.size(1), tokens}});
    }
    const std::string answer = best_answer(
        test_.data, std::span(test_.windows).subspan(begin, end - begin),
        spans);
    const AnswerScore own =
        score_answer(test_.data.questions[question], answer);
    out.scores[0].sum += own.f1;
    out.scores[1].sum += own.exact;
    for (Score& s : out.scores) s.weight += 1;
  }

  SquadWindowOptions options_;
  WordPieceTokenizer tokenizer_;
  Questions train_;
  Questions test_;
};

}  // namespace

std::unique_ptr<Task> make_question_task(const TrainConfig& config) {
  require(!config.data_dir.empty(),
          "[dataset 'squad'] --data-dir must name the folder of "
          "train-v1.1.json, dev-v1.1.json and vocab.txt; tools/make_questions "
          "makes the first two of any text, sluice data vocab the last");
  return std::make_unique<QuestionTask>(config);
}

std::vector<Description> question_datasets() {
  Squad::Params params;
  return {describe(Squad::kName, Squad::kSummary, Squad::list(params))};
}

}  // namespace sluice
