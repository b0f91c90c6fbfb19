#include "files.h"
#include "sluice/torch/tensors.h"
#include "torch/blank_model.h"

namespace sluice::testing {
namespace {

constexpr TokenInput kPenn = {10000, 35};
constexpr TokenInput kWiki2 = {33278, 100};
constexpr TokenInput kGptBlocks = {50257, 1024};
constexpr TokenInput kSquad = {30522, 384};
constexpr SpeechInput kAn4 = {161, 29};

struct SequenceCount {
  const char* text;
  ModelInput input;
  std::int64_t elements;
  std::size_t tensors;
};

void PrintTo(const SequenceCount& count, std::ostream* out) {
  *out << count.text << " on " << describe(count.input);
}

class SequenceModelCounts : public ::testing::TestWithParam<SequenceCount> {};

TEST_P(SequenceModelCounts, AreThoseOfThePapers) {
  const auto& [text, input, elements, tensors] = GetParam();
  const auto parameters = parameters_of(*blank_model(text, input));
  EXPECT_EQ(count_elements(parameters), elements);
  EXPECT_EQ(parameters.size(), tensors);
  for (const auto& [name, tensor] : parameters) {
    EXPECT_TRUE(tensor.is_meta()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SequenceModelCounts,
    ::testing::Values(
        SequenceCount{"lstm", kPenn, 66034000, 11},
        SequenceCount{"lstm:hidden=500,dropout=0.5", kWiki2, 37319278, 11},
        SequenceCount{"transformer", kWiki2, 34367678, 99},
        SequenceCount{"gpt2", kGptBlocks, 124439808, 148},
        SequenceCount{"gpt2-medium", kGptBlocks, 354823168, 292},
        SequenceCount{"gpt2-large", kGptBlocks, 774030080, 436},
        SequenceCount{"gpt2-xl", kGptBlocks, 1557611200, 580},
        SequenceCount{"bert-base", kSquad, 109488386, 201},
        SequenceCount{"bert-base:multiple=1", kSquad, 109483778, 201},
        SequenceCount{"bert-large", kSquad, 335150082, 393},
        SequenceCount{"deepspeech", kAn4, 27569568, 40},
        SequenceCount{"deepspeech:width=1024", kAn4, 43476256, 40}));

struct SequenceTensor {
  const char* text;
  ModelInput input;
  const char* tensor;
  std::vector<std::int64_t> dims;
};

// The Python test compares all names, of small forms.
TEST(SequenceModels, NameTensorsAsTheirOriginalsDo) {
  for (const auto& [text, input, name, dims] : std::vector<SequenceTensor>{
           {"lstm", kPenn, "encoder.weight", {10000, 1500}},
           {"lstm", kPenn, "rnn.weight_hh_l1", {6000, 1500}},
           {"lstm:embed=300", kPenn, "rnn.weight_ih_l0", {6000, 300}},
           {"transformer",
            kWiki2,
            "transformer_encoder.layers.7.self_attn.in_proj_weight",
            {1200, 400}},
           {"gpt2", kGptBlocks, "transformer.wpe.weight", {1024, 768}},
           {"gpt2-xl",
            kGptBlocks,
            "transformer.h.47.attn.c_attn.weight",
            {4800, 1600}},
           {"bert-base",
            kSquad,
            "bert.embeddings.word_embeddings.weight",
            {30528, 768}},
           {"bert-large",
            kSquad,
            "bert.encoder.layer.23.attention.output.LayerNorm.weight",
            {1024}},
           {"bert-large", kSquad, "qa_outputs.weight", {2, 1024}},
           {"deepspeech", kAn4, "conv.seq_module.3.weight", {32, 32, 21, 11}},
           {"deepspeech", kAn4, "rnns.0.rnn.weight_ih_l0", {3200, 1312}},
           {"deepspeech", kAn4, "rnns.4.batch_norm.module.weight", {800}},
           {"deepspeech", kAn4, "lookahead.0.weight", {800, 21}},
           {"deepspeech", kAn4, "fc.0.module.1.weight", {29, 800}}}) {
    const auto tensor =
        find_tensor(parameters_of(*blank_model(text, input)), name);
    ASSERT_TRUE(tensor.defined()) << text << ": " << name;
    EXPECT_EQ(tensor.sizes(), dims) << name;
  }
}

TEST(SequenceModels, DrawAsDocumented) {
  const auto lstm = parameters_of(*make_model("lstm:hidden=64", kPenn, 1));
  for (const char* name : {"encoder.weight", "decoder.weight"}) {
    EXPECT_NEAR(find_tensor(lstm, name).max().item<double>(), 0.1, 1e-5);
    EXPECT_NEAR(find_tensor(lstm, name).min().item<double>(), -0.1, 1e-5);
  }
  EXPECT_EQ(find_tensor(lstm, "decoder.bias").abs().max().item<float>(), 0);
  EXPECT_NEAR(find_tensor(lstm, "rnn.weight_hh_l1").max().item<double>(),
              1.0 / 8, 1e-4);
  const auto gpt2 =
      parameters_of(*make_model("gpt2:layers=8,width=128,heads=2", kPenn, 1));
  const auto deviation = [&](const char* name) {
    return find_tensor(gpt2, name).std().item<double>();
  };
  EXPECT_NEAR(deviation("transformer.wte.weight"), 0.02, 1e-4);
  EXPECT_NEAR(deviation("transformer.wpe.weight"), 0.02, 1e-3);
  EXPECT_NEAR(deviation("transformer.h.2.mlp.c_fc.weight"), 0.02, 1e-3);
  EXPECT_NEAR(deviation("transformer.h.2.mlp.c_proj.weight"), 0.005, 2e-4);
  EXPECT_NEAR(deviation("transformer.h.7.attn.c_proj.weight"), 0.005, 2e-4);
  const auto transformer = parameters_of(
      *make_model("transformer:layers=1,width=64,heads=2", kPenn, 1));
  EXPECT_NEAR(
      find_tensor(transformer,
                  "transformer_encoder.layers.0.self_attn.in_proj_weight")
          .max()
          .item<double>(),
      std::sqrt(6.0 / 256), 1e-4);
}

template <class Kind>
std::string kind_complaint(std::string_view text,
                           const typename Kind::Takes& input) {
  return message_of<std::invalid_argument>(
      [&] { make_model_of<Kind>(text, input); });
}

TEST(SequenceModels, SayWhatWouldWork) {
  const auto complaint = [](std::string_view text, const ModelInput& input) {
    return message_of<std::invalid_argument>([&] { make_model(text, input); });
  };
  EXPECT_EQ(complaint("resnet50", kPenn),
            "[model 'resnet50'] takes images, but the data are up to 35 tokens "
            "of 10000; models of such data: lstm transformer gpt2 gpt2-medium "
            "gpt2-large gpt2-xl bert-base bert-large");
  EXPECT_EQ(complaint("gpt2", kAn4),
            "[model 'gpt2'] takes tokens, but the data are spectra of 161 "
            "bands, spelled in 29 labels; models of such data: deepspeech");
  EXPECT_EQ(complaint("bert-base:heads=7", kSquad),
            "[model 'bert-base'] heads must divide the width, 768, got 7; "
            "heads=6 would do");
  EXPECT_EQ(complaint("transformer:width=64", kWiki2),
            "[model 'transformer'] heads must divide the width, 64, got 10; "
            "heads=8 would do");
  EXPECT_EQ(complaint("gpt2:context=512", kGptBlocks),
            "[model 'gpt2'] sequences must have 512 tokens at most (parameter "
            "'context'), got 1024");
  EXPECT_EQ(complaint("bert-large:positions=128", kSquad),
            "[model 'bert-large'] sequences must have 128 tokens at most "
            "(parameter 'positions'), got 384");
  EXPECT_EQ(complaint("lstm", TokenInput{1, 35}),
            "[make_model] there must be two words at least, and sequences of "
            "one or more, got 1 and 35");
  EXPECT_EQ(complaint("deepspeech", SpeechInput{0, 29}),
            "[make_model] spectra must have bands and there must be two labels "
            "at least, got 0 and 29");
  EXPECT_EQ(kind_complaint<SpanModel>("lstm:hidden=8", kPenn),
            "[make_model] there must be a model of questions, such as "
            "bert-base, got 'lstm:hidden=8'");
}

}  // namespace
}  // namespace sluice::testing
