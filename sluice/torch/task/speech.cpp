#include "sluice/torch/task/speech.h"

#include <algorithm>
#include <array>

#include "sluice/audio/corpus.h"
#include "sluice/audio/length_batches.h"
#include "sluice/audio/perturb.h"
#include "sluice/audio/score.h"
#include "sluice/core/hash.h"
#include "sluice/torch/data/spectrogram.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 4> kSpeechScores = {
    "wer", "cer", "corpus_wer", "corpus_cer"};

// Spectra of clips, padded with zeros (batch x bins x time) and, in host
// memory, their lengths in time, the labels of all one after another, and how
// many each clip has. Changed by `key`, if there is one, and the clip.
Batch make_clips(const SpeechCorpus& corpus,
                 std::span<const std::uint64_t> clips,
                 const std::optional<std::uint64_t>& key) {
  std::vector<std::vector<float>> sounds(clips.size());
  std::vector<std::int64_t> times, labels, counts;
  for (std::size_t i = 0; i < clips.size(); ++i) {
    corpus.samples(clips[i], sounds[i]);
    if (key) {
      sounds[i] = perturb(sounds[i], draw_perturbation(mix64(*key, clips[i])));
    }
    times.push_back(
        static_cast<std::int64_t>(spectrogram_frames(sounds[i].size())));
    const std::vector<std::int32_t> own = corpus.targets(clips[i]);
    labels.insert(labels.end(), own.begin(), own.end());
    counts.push_back(static_cast<std::int64_t>(own.size()));
  }
  const std::int64_t longest = *std::max_element(times.begin(), times.end());
  torch::Tensor spectra =
      torch::zeros({static_cast<std::int64_t>(clips.size()),
                    static_cast<std::int64_t>(kSpectrumBins), longest});
  for (std::size_t i = 0; i < clips.size(); ++i) {
    torch::Tensor one =
        torch::empty({static_cast<std::int64_t>(kSpectrumBins), times[i]});
    write_spectrogram(sounds[i], {one.data_ptr<float>(),
                                  static_cast<std::size_t>(one.numel())});
    spectra[static_cast<std::int64_t>(i)].narrow(1, 0, times[i]).copy_(one);
  }
  return {{spectra},
          {torch::tensor(times), torch::tensor(labels), torch::tensor(counts)},
          {}};
}

class ClipBatches final : public BatchSource {
 public:
  ClipBatches(const SpeechCorpus& corpus, const SamplerOptions& options)
      : corpus_(corpus),
        seed_(options.seed),
        order_(lengths_of(corpus), options) {}

  std::uint64_t steps_per_epoch() const override {
    return order_.steps_per_epoch();
  }
  const Position& position() const override { return order_.position(); }
  void seek(const Position& position) override { order_.seek(position); }
  Batch next() override {
    const Position here = order_.position();
    try {
      return make_clips(corpus_, order_.next(),
                        mix64(seed_, kTempo, here.epoch));
    } catch (...) {
      order_.seek(here);
      throw;
    }
  }

 private:
  static constexpr std::uint64_t kTempo = 0x74656d706fULL;

  static std::vector<std::uint64_t> lengths_of(const SpeechCorpus& corpus) {
    std::vector<std::uint64_t> lengths;
    for (std::size_t i = 0; i < corpus.size(); ++i) {
      lengths.push_back(corpus.length(i));
    }
    return lengths;
  }

  const SpeechCorpus& corpus_;
  std::uint64_t seed_;
  LengthBatches order_;
};

class SpeechTask final : public Task {
 public:
  explicit SpeechTask(const TrainConfig& config)
      : train_(make_speech_corpus(config.dataset,
                                  {Split::kTrain, config.data_dir})),
        test_(make_speech_corpus(config.dataset,
                                 {Split::kTest, config.data_dir})) {}

  ModelInput input() const override {
    return SpeechInput{static_cast<std::int64_t>(kSpectrumBins),
                       static_cast<std::int64_t>(train_->labels().size())};
  }
  std::uint64_t fingerprint() const override {
    return mix64(train_->fingerprint(), test_->fingerprint());
  }
  std::span<const std::string_view> scores() const override {
    return kSpeechScores;
  }
  std::string_view training_score() const override { return ""; }
  std::string_view unit() const override { return "clips"; }
  bool shapes_vary() const override { return true; }
  std::vector<std::string> labels() const override {
    std::vector<std::string> all;
    for (const char letter : train_->labels().letters()) {
      all.emplace_back(1, letter);
    }
    return all;
  }
  std::vector<std::string> notes() const override {
    // Mostly the same of both: what is left out, is before they are told apart.
    std::vector<std::string> all = train_->notes();
    for (const std::string& note : test_->notes()) {
      if (std::ranges::find(all, note) == all.end()) all.push_back(note);
    }
    return all;
  }

  void check(const Model& model) const override {
    model_as<SpeechModel>(model);
  }
  std::unique_ptr<BatchSource> training(const Model& model,
                                        const SamplerOptions& sampling,
                                        const LoaderOptions&) const override {
    const auto& speech = model_as<SpeechModel>(model);
    const auto frames = [&](std::size_t samples) {
      return static_cast<std::size_t>(speech.times_of(
          static_cast<std::int64_t>(spectrogram_frames(samples))));
    };
    require_ctc_fits(*train_, frames, kFastest);
    require_ctc_fits(*test_, frames);
    return std::make_unique<ClipBatches>(*train_, sampling);
  }

  Loss loss(Model& model, const Batch& batch, Carried&) const override {
    const auto spelled = forward(model, batch);
    const auto clips = static_cast<double>(batch.host[0].size(0));
    return {ctc(spelled, batch) / clips, {}, clips};
  }

  Evaluation evaluate(Model& model, const torch::Device& device,
                      const EvaluationShare& share) const override {
    Evaluation out = nothing_yet();
    SpeechScore score;
    const Partition mine =
        evaluation_partition(test_->size(), share.rank, share.ranks);
    for (std::uint64_t at = mine.begin; at < mine.end; at += share.batch) {
      std::vector<std::uint64_t> clips;
      for (std::uint64_t c = at; c < std::min(at + share.batch, mine.end);
           ++c) {
        clips.push_back(c);
      }
      Batch batch = make_clips(*test_, clips, std::nullopt);
      batch.tensors[0] = batch.tensors[0].to(device);
      const auto spelled = forward(model, batch);
      out.loss += ctc(spelled, batch).item<double>();
      out.samples += static_cast<double>(clips.size());
      count_errors(clips, spelled, score);
    }
    const auto& [count, words, letters, word_errors, word_length, letter_errors,
                 letter_length] = score.sums();
    const auto set = [&](std::size_t i, double sum, double weight) {
      out.scores[i].sum = sum;
      out.scores[i].weight = weight;
    };
    set(0, words, count);
    set(1, letters, count);
    set(2, word_errors, word_length);
    set(3, letter_errors, letter_length);
    return out;
  }

 private:
  static SpeechModel::Spelled forward(Model& model, const Batch& batch) {
    return model_as<SpeechModel>(model).forward(batch.tensors[0],
                                                batch.host[0]);
  }

  // Summed over the clips. In fp32 whatever the model computes in.
  static torch::Tensor ctc(const SpeechModel::Spelled& spelled,
                           const Batch& batch) {
    const torch::Tensor logs =
        spelled.scores.to(torch::kFloat32).log_softmax(2).transpose(0, 1);
    return torch::ctc_loss(logs, batch.host[1], spelled.lengths, batch.host[2],
                           Labels::kBlank, at::Reduction::Sum);
  }

  void count_errors(std::span<const std::uint64_t> clips,
                    const SpeechModel::Spelled& spelled,
                    SpeechScore& score) const {
    const torch::Tensor best =
        spelled.scores.argmax(2).to(torch::kCPU, torch::kInt32).contiguous();
    for (std::size_t i = 0; i < clips.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const auto times =
          static_cast<std::size_t>(spelled.lengths[row].item<std::int64_t>());
      const std::string heard = test_->labels().decode(
          greedy_ctc({best[row].data_ptr<std::int32_t>(), times}));
      score.add(test_->transcript(clips[i]), heard);
    }
  }

  std::unique_ptr<SpeechCorpus> train_;
  std::unique_ptr<SpeechCorpus> test_;
};

}  // namespace

std::unique_ptr<Task> make_speech_task(const TrainConfig& config) {
  require(config.length == 0,
          "[train] --length is for texts, and the data are speech");
  return std::make_unique<SpeechTask>(config);
}

std::vector<Description> speech_datasets() {
  std::vector<Description> all;
  for (const SpeechCorpusEntry& entry : speech_corpora()) {
    all.push_back(entry.describe());
  }
  return all;
}

}  // namespace sluice
