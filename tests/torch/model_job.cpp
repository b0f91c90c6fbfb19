#include "tests/torch/model_job.h"

#include <ATen/CPUGeneratorImpl.h>

#include "sluice/core/error.h"

namespace sluice::testing {
namespace {

constexpr std::uint64_t kModelSeed = 7;
constexpr std::uint64_t kSampleSeed = 12;

class Samples {
 public:
  torch::Tensor normal(at::IntArrayRef shape) {
    return torch::empty(shape, torch::kDouble).normal_(0, 1, generator_);
  }
  torch::Tensor below(std::int64_t end, at::IntArrayRef shape,
                      std::int64_t begin = 0) {
    return torch::empty(shape, torch::kLong).random_(begin, end, generator_);
  }

 private:
  torch::Generator generator_ =
      at::make_generator<at::CPUGeneratorImpl>(kSampleSeed);
};

// Each a bit shorter than the one before, the first whole.
torch::Tensor falling_lengths(std::int64_t count, std::int64_t longest) {
  return longest -
         torch::arange(count) * std::max<std::int64_t>(1, longest / 8);
}

class ImageJob final : public ModelJob {
 public:
  ImageJob(const std::string& text, const ImageInput& input, std::int64_t batch)
      : ModelJob(make_model(text, input, kModelSeed), draw(input, batch)) {}

  torch::Tensor scores() override {
    return dynamic_cast<ImageModel&>(model()).forward(sample("images"));
  }
  torch::Tensor loss(const torch::Tensor& scores) override {
    return torch::cross_entropy_loss(scores, sample("labels"));
  }

 private:
  static NamedTensors draw(const ImageInput& input, std::int64_t batch) {
    Samples samples;
    return {{"images", samples.normal(
                           {batch, input.channels, input.height, input.width})},
            {"labels", torch::arange(batch) % input.classes}};
  }
};

class LanguageJob final : public ModelJob {
 public:
  LanguageJob(std::shared_ptr<Model> model, const TokenInput& input,
              std::int64_t batch)
      : ModelJob(std::move(model), draw(input, batch)) {}

  torch::Tensor scores() override {
    LanguageModel::State state;
    return dynamic_cast<LanguageModel&>(model()).forward(sample("tokens"),
                                                         state);
  }
  torch::Tensor loss(const torch::Tensor& scores) override {
    return torch::cross_entropy_loss(scores.flatten(0, 1),
                                     sample("targets").flatten());
  }

 private:
  static NamedTensors draw(const TokenInput& input, std::int64_t batch) {
    Samples samples;
    const torch::Tensor text =
        samples.below(input.vocabulary, {batch, input.length + 1});
    return {{"tokens", text.narrow(1, 0, input.length).contiguous()},
            {"targets", text.narrow(1, 1, input.length).contiguous()}};
  }
};

class SpanJob final : public ModelJob {
 public:
  SpanJob(std::shared_ptr<Model> model, const TokenInput& input,
          std::int64_t batch)
      : ModelJob(std::move(model), draw(input, batch)) {}

  torch::Tensor scores() override {
    return dynamic_cast<SpanModel&>(model()).forward(
        sample("tokens"), sample("segments"), sample("mask"));
  }
  torch::Tensor loss(const torch::Tensor& scores) override {
    const torch::Tensor ends = sample("ends");
    return (torch::cross_entropy_loss(scores.select(2, 0), ends.select(1, 0)) +
            torch::cross_entropy_loss(scores.select(2, 1), ends.select(1, 1))) /
           2;
  }

 private:
  static NamedTensors draw(const TokenInput& input, std::int64_t batch) {
    Samples samples;
    const torch::Tensor times = torch::arange(input.length);
    const torch::Tensor lengths = falling_lengths(batch, input.length);
    return {{"tokens", samples.below(input.vocabulary, {batch, input.length})},
            {"segments",
             times.ge(input.length / 4).to(torch::kLong).repeat({batch, 1})},
            {"mask", times.lt(lengths.unsqueeze(1)).to(torch::kLong)},
            {"ends", samples.below(std::max<std::int64_t>(1, input.length / 2),
                                   {batch, 2})}};
  }
};

class SpeechJob final : public ModelJob {
 public:
  SpeechJob(const std::string& text, const SpeechInput& input,
            std::int64_t times, std::int64_t batch)
      : ModelJob(make_model(text, input, kModelSeed),
                 draw(input, times, batch)) {}

  torch::Tensor scores() override {
    auto [scores, lengths] = dynamic_cast<SpeechModel&>(model()).forward(
        sample("spectra"), sample("lengths"));
    lengths_ = lengths;
    return scores;
  }
  torch::Tensor loss(const torch::Tensor& scores) override {
    return torch::ctc_loss(scores.log_softmax(2).transpose(0, 1),
                           sample("targets"), lengths_,
                           sample("target_lengths"));
  }

 private:
  static NamedTensors draw(const SpeechInput& input, std::int64_t times,
                           std::int64_t batch) {
    Samples samples;
    const std::int64_t said = std::max<std::int64_t>(1, times / 16);
    return {{"spectra", samples.normal({batch, input.bins, times})},
            {"lengths", falling_lengths(batch, times)},
            {"targets", samples.below(input.labels, {batch, said}, 1)},
            {"target_lengths", torch::full({batch}, said, torch::kLong)}};
  }

  torch::Tensor lengths_;
};

std::unique_ptr<ModelJob> make_token_job(const std::string& text,
                                         const TokenInput& input,
                                         std::int64_t batch) {
  std::shared_ptr<Model> model = make_model(text, input, kModelSeed);
  if (dynamic_cast<SpanModel*>(model.get()) != nullptr) {
    return std::make_unique<SpanJob>(std::move(model), input, batch);
  }
  return std::make_unique<LanguageJob>(std::move(model), input, batch);
}

}  // namespace

void ModelJob::convert(torch::Dtype type) {
  model_->to(type);
  for (auto& [name, tensor] : samples_) {
    if (tensor.is_floating_point()) tensor = tensor.to(type);
  }
}

void ModelJob::move_to(const torch::Device& device) {
  model_->to(device);
  for (auto& [name, tensor] : samples_) {
    if (!name.ends_with("lengths")) tensor = tensor.to(device);
  }
}

const torch::Tensor& ModelJob::sample(std::string_view name) const {
  for (const auto& [own, tensor] : samples_) {
    if (own == name) return tensor;
  }
  throw std::logic_error(concat("[model job] no sample '", name, "'"));
}

std::unique_ptr<ModelJob> make_job(const std::string& model,
                                   const std::string& kind,
                                   std::span<const std::int64_t> numbers) {
  const auto& n = numbers;
  if (kind == "images" && n.size() == 5) {
    return std::make_unique<ImageJob>(model, ImageInput{n[0], n[1], n[2], n[3]},
                                      n[4]);
  }
  if (kind == "tokens" && n.size() == 3) {
    return make_token_job(model, {n[0], n[1]}, n[2]);
  }
  if (kind == "spectra" && n.size() == 4) {
    return std::make_unique<SpeechJob>(model, SpeechInput{n[0], n[1]}, n[2],
                                       n[3]);
  }
  throw std::invalid_argument(
      concat("[model job] samples must be images of 5 numbers, tokens of 3 or "
             "spectra of 4, got ",
             kind, " of ", n.size()));
}

}  // namespace sluice::testing
