#include "sluice/weights/import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "files.h"
#include "weights/weight_files.h"

namespace sluice {
namespace {

using testing::FakeWeights;
using testing::message_of;
using List = std::vector<float>;
using Names = std::vector<std::string>;

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";
constexpr const char* kNorm = "bert.embeddings.LayerNorm.weight";

List made(const ImportPlan& plan, std::string_view name) {
  for (const Assignment& assignment : plan.assignments) {
    if (assignment.name != name) continue;
    List values(static_cast<std::size_t>(*elements_of(assignment.dims)), -1.0F);
    materialize(assignment, values);
    return values;
  }
  ADD_FAILURE() << "no assignment for " << name;
  return {};
}

TEST(ImportBert, TakesOldNamesWithoutPrefix) {
  FakeWeights file;
  file.add("embeddings.word_embeddings.weight", {3, 2}, 1)
      .add("embeddings.LayerNorm.gamma", {2}, 10)
      .add("embeddings.LayerNorm.beta", {2}, 20)
      .add("embeddings.position_ids", {1, 4})
      .add("cls.predictions.bias", {3})
      .add("strange", {1});
  const TensorSpec specs[] = {{kWords, {3, 2}},
                              {kNorm, {2}},
                              {"bert.embeddings.LayerNorm.bias", {2}},
                              {"bert.pooler.dense.weight", {2, 2}},
                              {"qa_outputs.weight", {2, 2}}};
  const ImportPlan plan = plan_import("bert", specs, file.get());
  EXPECT_EQ(made(plan, kWords), (List{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(made(plan, kNorm), (List{10, 11}));
  EXPECT_EQ(made(plan, "bert.embeddings.LayerNorm.bias"), (List{20, 21}));
  EXPECT_EQ(plan.report.fresh,
            (Names{"bert.pooler.dense.weight", "qa_outputs.weight"}));
  EXPECT_EQ(plan.report.unused, (Names{"strange"}));
  EXPECT_TRUE(plan.report.missing_body.empty());
  plan.report.require_body();
  EXPECT_EQ(
      plan.report.text(),
      "weights of 'w' (safetensors, names of huggingface): 3 of 5 tensors fit\n"
      "not in the file, stays new (2): bert.pooler.dense.weight "
      "qa_outputs.weight\n"
      "ignored, a constant, which the model makes itself (1): "
      "embeddings.position_ids\n"
      "ignored, the heads of pretraining, which the model does not have (1): "
      "cls.predictions.bias\n"
      "of the file, not used (1): strange");
}

TEST(ImportBert, PadsAndCutsTheVocabularyAndSaysSo) {
  FakeWeights file;
  file.add(kWords, {3, 2}, 1).add(kNorm, {2});
  const TensorSpec more[] = {{kWords, {5, 2}}, {kNorm, {2}}};
  const ImportPlan padded = plan_import("bert", more, file.get());
  EXPECT_EQ(made(padded, kWords), (List{1, 2, 3, 4, 5, 6, 0, 0, 0, 0}));
  EXPECT_EQ(padded.report.notes, (Names{std::string("'") + kWords +
                                        "': 2 rows of zeros added behind 3"}));
  const TensorSpec fewer[] = {{kWords, {2, 2}}};
  const ImportPlan cut = plan_import("bert", fewer, file.get());
  EXPECT_EQ(made(cut, kWords), (List{1, 2, 3, 4}));
  EXPECT_EQ(cut.report.notes, (Names{std::string("'") + kWords +
                                     "': the last 1 of 3 rows left out"}));
  const TensorSpec other[] = {{kWords, {3 + kMostPadding + 1, 2}},
                              {kNorm, {2}}};
  const ImportReport report = plan_import("bert", other, file.get()).report;
  ASSERT_EQ(report.unfit.size(), 1U);
  EXPECT_EQ(report.unfit[0].expected, "131 x 2");
  EXPECT_EQ(report.unfit[0].given, "3 x 2");
  EXPECT_EQ(
      message_of<std::runtime_error>([&] { report.require_body(); }),
      std::string("[import] 'w' must fit but for heads, 1 tensors do not; "
                  "the first: '") +
          kWords + "' must be 131 x 2, '" + kWords + "' is 3 x 2");
}

TEST(ImportBert, TakesTheFirstPositionsForShorterTexts) {
  const char* name = "bert.embeddings.position_embeddings.weight";
  FakeWeights file;
  file.add(kWords, {3, 2}).add(name, {300, 2}, 1);
  const TensorSpec shorter[] = {{kWords, {3, 2}}, {name, {2, 2}}};
  const ImportPlan plan = plan_import("bert", shorter, file.get());
  EXPECT_EQ(made(plan, name), (List{1, 2, 3, 4}));
  EXPECT_EQ(plan.report.notes, (Names{std::string("'") + name +
                                      "': the last 298 of 300 rows left out"}));
  const TensorSpec longer[] = {{kWords, {3, 2}}, {name, {301, 2}}};
  EXPECT_EQ(plan_import("bert", longer, file.get()).report.unfit.size(), 1U);
}

TEST(ImportBert, RefusesAnotherModel) {
  FakeWeights file;
  file.add("layer1.0.conv1.weight", {1});
  const TensorSpec specs[] = {{kWords, {3, 2}}};
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { plan_import("bert", specs, file.get()); }),
            "[import] 'w' has none of the 1 tensors of the bert; its first is "
            "'layer1.0.conv1.weight': is it of another model?");
  FakeWeights large;
  large.add(kWords, {3, 4});
  large.get().config = ModelConfig{};
  large.get().config->model_type = "bert";
  large.get().config->width = 4;
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { plan_import("bert", specs, large.get()); }),
            "[import] 'w' must be of the model that was asked for, but in its "
            "config.json hidden_size is 4, the model has 2");
}

TEST(ImportBert, SaysWhatOfTheBodyIsMissing) {
  FakeWeights file;
  file.add(kWords, {3, 2});
  const TensorSpec specs[] = {{kWords, {3, 2}}, {kNorm, {2}}};
  const ImportReport report = plan_import("bert", specs, file.get()).report;
  EXPECT_EQ(report.missing_body, (Names{kNorm}));
  EXPECT_EQ(message_of<std::runtime_error>([&] { report.require_body(); }),
            std::string("[import] 'w' must have all but heads, 1 tensors are "
                        "missing; the first: '") +
                kNorm + "'");
}

class ImportGpt2 : public ::testing::Test {
 protected:
  FakeWeights file_;
  std::vector<TensorSpec> specs_ = {
      {"transformer.wte.weight", {3, 2}},
      {"transformer.h.0.attn.c_attn.weight", {6, 2}},
      {"transformer.h.0.attn.c_attn.bias", {6}},
      {"transformer.h.0.attn.c_proj.weight", {2, 2}}};
};

TEST_F(ImportGpt2, TransposesAndIgnoresBuffers) {
  file_.add("wte.weight", {3, 2}, 1)
      .add("h.0.attn.c_attn.weight", {2, 6}, 1)
      .add("h.0.attn.c_attn.bias", {6}, 1)
      .add("h.0.attn.c_proj.weight", {2, 2}, 1)
      .add("h.0.attn.bias", {1, 1, 4, 4})
      .add("h.0.attn.masked_bias", {});
  const ImportPlan plan = plan_import("gpt2", specs_, file_.get());
  EXPECT_EQ(made(plan, "transformer.h.0.attn.c_attn.weight"),
            (List{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12}));
  EXPECT_EQ(made(plan, "transformer.h.0.attn.c_attn.bias"),
            (List{1, 2, 3, 4, 5, 6}));
  // Square, so that its shape would not tell.
  EXPECT_EQ(made(plan, "transformer.h.0.attn.c_proj.weight"),
            (List{1, 3, 2, 4}));
  EXPECT_EQ(plan.report.ignored.size(), 2U);
  EXPECT_TRUE(plan.report.unused.empty());
}

TEST_F(ImportGpt2, RefusesMatricesThatAreNotTransposed) {
  file_.add("transformer.wte.weight", {3, 2})
      .add("transformer.h.0.attn.c_attn.weight", {6, 2});
  const auto report = plan_import("gpt2", specs_, file_.get()).report;
  ASSERT_EQ(report.unfit.size(), 1U);
  EXPECT_EQ(report.unfit[0].given, "2 x 6");
}

TEST_F(ImportGpt2, ChecksTheTiedHead) {
  specs_.resize(1);
  FakeWeights tied;
  tied.add("transformer.wte.weight", {3, 2}).add("lm_head.weight", {3, 2});
  const auto report = plan_import("gpt2", specs_, tied.get()).report;
  ASSERT_EQ(report.ignored.size(), 1U);
  EXPECT_EQ(report.ignored[0].why, "equal to 'transformer.wte.weight'");
  FakeWeights alone;
  alone.add("lm_head.weight", {3, 2}, 7);
  EXPECT_EQ(
      made(plan_import("gpt2", specs_, alone.get()), "transformer.wte.weight"),
      (List{7, 8, 9, 10, 11, 12}));
  FakeWeights loose;
  loose.add("transformer.wte.weight", {3, 2}).add("lm_head.weight", {3, 2}, 2);
  EXPECT_EQ(
      message_of<std::runtime_error>(
          [&] { plan_import("gpt2", specs_, loose.get()); }),
      "[import] 'w': 'lm_head.weight' must equal "
      "'transformer.wte.weight', since the model has one matrix for both, "
      "differs; train with a model that ties them");
}

class ImportVit : public ::testing::Test {
 protected:
  void add_attention(const std::string& prefix, const char* except = "") {
    float first = 1;
    for (const char* part : {"query", "key", "value"}) {
      const std::string name =
          prefix + "encoder.layer.0.attention.attention." + part + ".weight";
      if (std::string_view(part) != except) file_.add(name, {2, 2}, first);
      first += 10;
    }
    file_.add(prefix + "layernorm.weight", {2}, 5);
  }

  FakeWeights file_;
  std::vector<TensorSpec> specs_ = {{"blocks.0.attn.qkv.weight", {6, 2}},
                                    {"norm.weight", {2}},
                                    {"head.weight", {10, 2}}};
};

TEST_F(ImportVit, JoinsQueryKeyAndValue) {
  add_attention("vit.");
  file_.add("classifier.weight", {1000, 2});
  const ImportPlan plan = plan_import("vit", specs_, file_.get());
  EXPECT_EQ(made(plan, "blocks.0.attn.qkv.weight"),
            (List{1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24}));
  EXPECT_EQ(plan.report.dialect, "huggingface");
  ASSERT_EQ(plan.report.unfit.size(), 1U);
  plan.report.require_body();
  EXPECT_EQ(
      plan.report.text(),
      "weights of 'w' (safetensors, names of huggingface): 2 of 3 tensors "
      "fit\n3 joined: 1\ndoes not fit, stays new: head.weight must be 10 "
      "x 2, classifier.weight is 1000 x 2");
}

TEST_F(ImportVit, TellsTimmFromHuggingFace) {
  file_.add("blocks.0.attn.qkv.weight", {6, 2}, 1).add("norm.weight", {2});
  const ImportPlan plan = plan_import("vit", specs_, file_.get());
  EXPECT_EQ(plan.report.dialect, "timm");
  EXPECT_EQ(made(plan, "blocks.0.attn.qkv.weight")[11], 12.0F);
  EXPECT_EQ(plan.report.fresh, (Names{"head.weight"}));
}

TEST_F(ImportVit, RefusesPartsOfAttention) {
  add_attention("", "key");
  const auto report = plan_import("vit", specs_, file_.get()).report;
  ASSERT_EQ(report.unfit.size(), 1U);
  EXPECT_EQ(report.unfit[0].given,
            "no 'vit.encoder.layer.0.attention.attention.key.weight'");
  EXPECT_EQ(report.missing_body, (Names{"blocks.0.attn.qkv.weight"}));
}

TEST(ImportTorchvision, IgnoresCountersAndLeavesOtherHeadsNew) {
  FakeWeights file;
  file.add("conv1.weight", {4, 3, 1, 1}).add("fc.weight", {1000, 4});
  file.add<std::int64_t>("bn1.num_batches_tracked", WeightType::kI64, {}, {7});
  const TensorSpec specs[] = {{"conv1.weight", {4, 3, 1, 1}},
                              {"fc.weight", {10, 4}}};
  const ImportReport report =
      plan_import("torchvision", specs, file.get()).report;
  EXPECT_EQ(report.fitted.size(), 1U);
  EXPECT_EQ(report.unfit.size(), 1U);
  EXPECT_EQ(report.ignored.size(), 1U);
  report.require_body();
  const auto json = nlohmann::json::parse(report.json());
  EXPECT_EQ(json["unfit"][0]["expected"], "10 x 4");
  EXPECT_EQ(json["unfit"][0]["given"], "1000 x 4");
  EXPECT_EQ(json["fitted"][0]["how"], "as it is");
  EXPECT_EQ(json["ignored"][0]["why"], "a counter, which is not trained");
}

TEST(ImportTorchvision, RefusesNumbersThatAreNoWeights) {
  FakeWeights file;
  file.add("a", {2});
  file.add<std::int64_t>("b", WeightType::kI64, {2}, {7, 8});
  const TensorSpec specs[] = {{"a", {2}}, {"b", {2}}};
  const auto report = plan_import("torchvision", specs, file.get()).report;
  ASSERT_EQ(report.unfit.size(), 1U);
  EXPECT_EQ(report.unfit[0].given, "2 of I64");
}

class Materialize : public ::testing::Test {
 protected:
  template <class T>
  List values(WeightType type, const std::vector<T>& given) {
    FakeWeights file;
    const Dims dims = {static_cast<std::int64_t>(given.size())};
    file.add<T>("a", type, dims, given);
    const TensorSpec specs[] = {{"a", dims}};
    return made(plan_import("torchvision", specs, file.get()), "a");
  }
};

TEST_F(Materialize, ConvertsEveryFloatingType) {
  using U16 = std::vector<std::uint16_t>;
  EXPECT_EQ(values<double>(WeightType::kF64, {0.5, -3}), (List{0.5F, -3}));
  EXPECT_EQ(values(WeightType::kF16, U16{0x3c00, 0xc000, 0x0001}),
            (List{1, -2, std::ldexp(1.0F, -24)}));
  EXPECT_EQ(values(WeightType::kBF16, U16{0x3f80, 0xc040}), (List{1, -3}));
}

TEST_F(Materialize, RefusesWhatIsNotFinite) {
  const auto refused = [](auto&& f) {
    return message_of<std::runtime_error>(f);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(
      refused([&] {
        values<float>(WeightType::kF32, {1, nan});
      }),
      "[weights] tensor 'a' must be finite in fp32, element 1 is nan; the "
      "training that made it diverged");
  EXPECT_CONTAINS(refused([&] { values<double>(WeightType::kF64, {1e300}); }),
                  "element 0 is inf");
  EXPECT_CONTAINS(refused([&] {
                    values<std::uint16_t>(WeightType::kF16, {0, 0, 0xfc00});
                  }),
                  "element 2 is -inf");
}

TEST_F(Materialize, RefusesRoomOfAnotherSize) {
  FakeWeights file;
  file.add("a", {3});
  const Assignment assignment = {"a", {3}, {file.get().tensors[0]}, false};
  List room(2);
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { materialize(assignment, room); }),
      "[materialize] 'a' (3) must be given room for as many elements, got "
      "2");
}

}  // namespace
}  // namespace sluice
