#include <ATen/autocast_mode.h>

#include "files.h"
#include "sluice/torch/models/attention.h"
#include "sluice/torch/models/model.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/tensors.h"

namespace sluice::testing {
namespace {

constexpr TokenInput kWords = {40, 12};
constexpr SpeechInput kSounds = {33, 12};

// One thread: on a busy machine OpenMP's barriers take longer than the work.
template <class Base>
class Alone : public Base {
 protected:
  Alone() { torch::set_num_threads(1); }
  ~Alone() override { torch::set_num_threads(threads_); }

 private:
  int threads_ = torch::get_num_threads();
};

torch::Tensor text_of(std::int64_t texts, std::int64_t length) {
  return (torch::arange(texts * length) * 7 % kWords.vocabulary)
      .reshape({texts, length});
}

torch::Tensor scores_of(LanguageModel& model, const torch::Tensor& tokens) {
  LanguageModel::State state;
  return model.forward(tokens, state);
}

torch::Tensor scores_of(SpanModel& model, const torch::Tensor& tokens) {
  return model.forward(tokens, torch::zeros_like(tokens),
                       torch::ones_like(tokens));
}

torch::Tensor sounds_of(std::int64_t clips, std::int64_t times) {
  return torch::arange(clips * kSounds.bins * times)
      .reshape({clips, kSounds.bins, times})
      .sin();
}

// What a small model of any kind makes of two samples, where it is.
torch::Tensor scores_of(Model& model) {
  const torch::Device device = model.parameters()[0].device();
  const torch::Tensor tokens = text_of(2, 12).to(device);
  if (auto* language = dynamic_cast<LanguageModel*>(&model)) {
    return scores_of(*language, tokens);
  }
  if (auto* span = dynamic_cast<SpanModel*>(&model)) {
    return scores_of(*span, tokens);
  }
  return dynamic_cast<SpeechModel&>(model)
      .forward(sounds_of(2, 30).to(device), torch::tensor({30, 21}))
      .scores;
}

const std::vector<std::string> kSmall = {
    "lstm:hidden=16", "transformer:layers=2,width=20,heads=2",
    "gpt2:layers=2,width=16,heads=2,context=12",
    "bert-base:layers=2,width=16,heads=2,positions=12",
    "deepspeech:width=16,layers=2,context=3"};

ModelInput input_of(const std::string& text) {
  if (text.starts_with("deepspeech")) return kSounds;
  return kWords;
}

class EverySequenceModel : public Alone<::testing::TestWithParam<std::string>> {
};

TEST_P(EverySequenceModel, FollowsItsSeedAlone) {
  const ModelInput input = input_of(GetParam());
  torch::manual_seed(1);
  const auto a = parameters_of(*make_model(GetParam(), input, 5));
  torch::manual_seed(2);
  const auto b = parameters_of(*make_model(GetParam(), input, 5));
  const auto c = parameters_of(*make_model(GetParam(), input, 6));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    EXPECT_TRUE(a[i].tensor.isfinite().all().item<bool>()) << a[i].name;
    const bool drawn = a[i].tensor.dim() > 1;
    if (drawn) {
      EXPECT_FALSE(torch::equal(a[i].tensor, c[i].tensor)) << a[i].name;
    }
  }
}

TEST_P(EverySequenceModel, DrawsNothingFromTorch) {
  torch::manual_seed(3);
  const auto wanted = torch::rand({4});
  torch::manual_seed(3);
  const auto model = make_model(GetParam(), input_of(GetParam()));
  model->seed_noise(1);
  scores_of(*model).sum().backward();
  EXPECT_TRUE(torch::equal(torch::rand({4}), wanted));
}

TEST_P(EverySequenceModel, GivesEveryParameterAGradient) {
  const auto model = make_model(GetParam(), input_of(GetParam()));
  scores_of(*model).square().sum().backward();
  for (const auto& [name, tensor] : parameters_of(*model)) {
    EXPECT_TRUE(tensor.grad().defined()) << name;
  }
}

TEST_P(EverySequenceModel, LowersALossInAFewSteps) {
  const auto model = make_model(GetParam(), input_of(GetParam()));
  const auto optimizer = make_optimizer("adam", parameters_of(*model));
  const auto step = [&] {
    const auto loss = -scores_of(*model).log_softmax(-1).select(-1, 1).mean();
    optimizer->zero_gradients();
    loss.backward();
    optimizer->step(0.01);
    return loss.item<double>();
  };
  const double first = step();
  double last = first;
  for (int i = 0; i < 20; ++i) last = step();
  EXPECT_LT(last, 0.8 * first);
}

// As long as it lives.
class Bf16 {
 public:
  explicit Bf16(torch::DeviceType type = torch::kCPU) : type_(type) {
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, true);
  }
  ~Bf16() {
    at::autocast::set_autocast_enabled(type_, false);
    at::autocast::clear_cache();
  }

 private:
  torch::DeviceType type_;
};

TEST_P(EverySequenceModel, ComputesInBf16UnderAutocast) {
  const auto model = make_model(GetParam(), input_of(GetParam()));
  {
    const Bf16 bf16;
    scores_of(*model).square().sum().backward();
  }
  for (const auto& [name, tensor] : parameters_of(*model)) {
    EXPECT_TRUE(tensor.grad().isfinite().all().item<bool>()) << name;
  }
  model->eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor wanted = scores_of(*model);
  const Bf16 bf16;
  const torch::Tensor scores = scores_of(*model).to(torch::kFloat);
  EXPECT_LT((scores - wanted).abs().max().item<double>(),
            0.05 * wanted.abs().max().item<double>() + 0.01);
}

TEST_P(EverySequenceModel, ComputesTheSameOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "torch sees no GPU here";
  const auto model = make_model(GetParam(), input_of(GetParam()));
  model->eval();
  const torch::Tensor wanted = scores_of(*model);
  model->to(torch::kCUDA);
  EXPECT_TRUE(torch::allclose(scores_of(*model).cpu(), wanted, 1e-2, 1e-3));
  model->train();
  const auto scores = [&](std::uint64_t seed) {
    model->seed_noise(seed);
    return scores_of(*model);
  };
  EXPECT_TRUE(torch::allclose(scores(1), scores(1), 1e-4, 1e-5));
  const Bf16 bf16(torch::kCUDA);
  scores(1).square().sum().backward();
  for (const auto& [name, tensor] : parameters_of(*model)) {
    EXPECT_TRUE(tensor.grad().isfinite().all().item<bool>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EverySequenceModel, ::testing::ValuesIn(kSmall));

// What torch warns of, for as long as it lives.
class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    said.push_back(warning.msg());
  }
  std::vector<std::string> said;

 private:
  c10::WarningUtils::WarnAlways always_;  // not once for each kind
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

// The tensors of a recurrent layer lie together where cuDNN is, and are as
// before but for that.
TEST(RecurrentModels, KeepTheTensorsOfALayerTogetherOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "torch sees no GPU here";
  for (const std::string text :
       {"lstm:hidden=24,layers=2,embed=16", "deepspeech:width=16,layers=2"}) {
    const auto model = make_model(text, input_of(text));
    std::vector<torch::Tensor> before;
    for (const auto& [name, tensor] : parameters_of(*model)) {
      before.push_back(tensor.detach().clone());
    }
    model->to(torch::kCUDA);
    const NamedTensors after = parameters_of(*model);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto& [name, tensor] = after[i];
      EXPECT_TRUE(torch::equal(tensor.cpu(), before[i])) << name;
      const std::size_t at = name.find("rnn.weight_ih_l");
      if (at == std::string::npos) continue;
      for (std::size_t j = i + 1; j < i + 4; ++j) {
        EXPECT_TRUE(after[j].tensor.is_alias_of(tensor)) << after[j].name;
        EXPECT_TRUE(after[j].tensor.is_contiguous()) << after[j].name;
      }
    }
    const Warnings warnings;
    scores_of(*model).square().sum().backward();
    EXPECT_EQ(warnings.said, std::vector<std::string>()) << text;
  }
}

class DroppingSequence : public Alone<::testing::TestWithParam<std::string>> {};

TEST_P(DroppingSequence, FollowsItsSeedWhileTraining) {
  const auto model = make_model(GetParam(), kWords);
  const auto scores = [&](std::uint64_t seed) {
    model->seed_noise(seed);
    return scores_of(*model);
  };
  EXPECT_TRUE(torch::equal(scores(1), scores(1)));
  EXPECT_FALSE(torch::equal(scores(1), scores(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(scores(1), scores(2)));
}

INSTANTIATE_TEST_SUITE_P(
    All, DroppingSequence,
    ::testing::Values(
        "lstm:hidden=16,dropout=0.5", "transformer:layers=2,width=20,heads=2",
        "transformer:layers=1,width=20,heads=2,dropout=0,attention_dropout=0.5",
        "gpt2:layers=2,width=16,heads=2",
        "gpt2:layers=2,width=16,heads=2,attention_dropout=0",
        "gpt2:layers=1,width=16,heads=2,dropout=0,attention_dropout=0.5",
        "bert-base:layers=2,width=16,heads=2",
        "bert-base:layers=1,width=16,heads=2,dropout=0,"
        "attention_dropout=0.5"));

TEST(Lstm, GoesOnWhereAPieceEnded) {
  for (const char* text : {"lstm:hidden=16,dropout=0",
                           "lstm:hidden=16,embed=8,layers=3,dropout=0"}) {
    const auto model = make_model_of<LanguageModel>(text, kWords, 2);
    const torch::Tensor tokens = text_of(3, 10);
    const torch::Tensor whole = scores_of(*model, tokens);
    LanguageModel::State state;
    const torch::Tensor first = model->forward(tokens.narrow(1, 0, 6), state);
    for (const auto& carried : state) {
      EXPECT_FALSE(carried.requires_grad());
      EXPECT_EQ(carried.size(1), 3);
    }
    const torch::Tensor second = model->forward(tokens.narrow(1, 6, 4), state);
    EXPECT_TRUE(
        torch::allclose(torch::cat({first, second}, 1), whole, 1e-5, 1e-6))
        << text;
    second.sum().backward();
  }
}

TEST(Lstm, GoesOnUnderAutocast) {
  const auto model = make_model_of<LanguageModel>("lstm:hidden=16", kWords, 2);
  LanguageModel::State state;
  const Bf16 bf16;
  for (int piece = 0; piece < 2; ++piece) {
    model->forward(text_of(3, 10), state).sum().backward();
  }
}

TEST(LanguageModels, DoNotLookAhead) {
  for (const char* text :
       {"lstm:hidden=16,dropout=0",
        "transformer:layers=2,width=20,heads=2,dropout=0",
        "gpt2:layers=2,width=16,heads=2,dropout=0",
        // Not fused.
        "transformer:layers=2,width=20,heads=2,dropout=0,attention_dropout=0.1",
        "gpt2:layers=2,width=16,heads=2,dropout=0,attention_dropout=0.1"}) {
    const auto model = make_model_of<LanguageModel>(text, kWords, 3);
    const torch::Tensor tokens = text_of(2, 9);
    torch::Tensor other = tokens.clone();
    other.select(1, 6).add_(1).remainder_(kWords.vocabulary);
    model->seed_noise(4);
    const torch::Tensor a = scores_of(*model, tokens);
    model->seed_noise(4);
    const torch::Tensor b = scores_of(*model, other);
    EXPECT_TRUE(
        torch::allclose(a.narrow(1, 0, 6), b.narrow(1, 0, 6), 1e-5, 1e-6))
        << text;
    EXPECT_FALSE(torch::allclose(a.select(1, 6), b.select(1, 6))) << text;
  }
}

// With so little dropped that nothing is, step by step is the fused kernel.
TEST(Heads, MixTheSameFusedOrNot) {
  const auto noise = std::make_shared<Noise>();
  const auto x = torch::randn({2, 7, 12});
  const auto y = torch::randn({2, 7, 12});
  const auto counts = torch::arange(7).lt(torch::tensor({7, 4}).unsqueeze(1));
  for (const bool causal : {true, false}) {
    Heads fused(HeadsImpl::Options{3, causal, 0}, noise);
    Heads plain(HeadsImpl::Options{3, causal, 1e-12}, noise);
    const torch::Tensor which = causal ? torch::Tensor() : counts;
    EXPECT_TRUE(torch::allclose(fused->forward(x, y, x, which),
                                plain->forward(x, y, x, which), 1e-4, 1e-6));
  }
}

TEST(Bert, IgnoresPadding) {
  for (const char* text : {"bert-base:layers=2,width=16,heads=2,dropout=0",
                           "bert-base:layers=2,width=16,heads=2,dropout=0,"
                           "attention_dropout=1e-12"}) {
    const auto model = make_model_of<SpanModel>(text, kWords, 3);
    const torch::Tensor tokens = text_of(2, 12);
    const torch::Tensor longer =
        torch::cat({tokens, torch::full({2, 5}, 3, torch::kLong)}, 1);
    const torch::Tensor mask =
        torch::arange(17).lt(12).to(torch::kLong).repeat({2, 1});
    const auto scores = model->forward(longer, torch::zeros_like(longer), mask);
    EXPECT_TRUE(torch::allclose(scores.narrow(1, 0, 12),
                                scores_of(*model, tokens), 1e-5, 1e-6));
    const auto nothing = model->forward(longer, torch::zeros_like(longer),
                                        torch::zeros_like(longer));
    EXPECT_TRUE(nothing.isfinite().all().item<bool>());
  }
}

TEST(DeepSpeech, IgnoresPadding) {
  const auto model = make_model_of<SpeechModel>(
      "deepspeech:width=16,layers=2,context=3", kSounds, 3);
  // Running statistics that are not those of a new model.
  model->forward(sounds_of(2, 30), torch::tensor({30, 21}));
  model->eval();
  for (const std::int64_t times : {21, 22}) {
    const torch::Tensor sounds = sounds_of(1, times);
    const auto alone = model->forward(sounds, torch::tensor({times}));
    const auto padded = model->forward(
        torch::constant_pad_nd(sounds, {0, 17}, 5.0), torch::tensor({times}));
    const std::int64_t heard = alone.lengths.item<std::int64_t>();
    EXPECT_EQ(heard, 11);
    EXPECT_EQ(alone.scores.sizes(), (std::vector<std::int64_t>{1, 11, 12}));
    EXPECT_TRUE(torch::equal(alone.lengths, padded.lengths));
    EXPECT_TRUE(torch::allclose(padded.scores.narrow(1, 0, heard), alone.scores,
                                1e-5, 1e-6));
  }
}

TEST(SequenceModels, RefuseWhatDoesNotFit) {
  const auto gpt2 = make_model_of<LanguageModel>(
      "gpt2:layers=1,width=16,heads=2,context=12", kWords);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { scores_of(*gpt2, text_of(1, 13)); }),
            "[model 'gpt2'] sequences must have 12 tokens at most (parameter "
            "'context'), got 13");
  const auto lstm = make_model_of<LanguageModel>("lstm:hidden=8", kWords);
  LanguageModel::State state;
  lstm->forward(text_of(3, 4), state);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { lstm->forward(text_of(2, 4), state); }),
            "[model 'lstm'] tokens must be of as many texts as the state, got "
            "2 and a state of 3; begin other texts with an empty one");
  state.pop_back();
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { lstm->forward(text_of(3, 4), state); }),
            "[model 'lstm'] a state must have 4 tensors, got 3; begin texts "
            "with an empty one");
  const auto speech = make_model_of<SpeechModel>("deepspeech:width=8", kSounds);
  const auto sounds = sounds_of(2, 20);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              speech->forward(sounds, torch::tensor({20, 21}));
            }),
            "[model 'deepspeech'] lengths must lie in [1, 20], the times of "
            "the spectra, got 20 to 21");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { speech->forward(sounds, torch::tensor({20})); }),
            "[model 'deepspeech'] there must be one length per clip, got 1 for "
            "2");
}

}  // namespace
}  // namespace sluice::testing
