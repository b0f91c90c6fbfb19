#include "sluice/weights/name_map.h"

#include <gtest/gtest.h>

#include <set>

#include "files.h"

namespace sluice {
namespace {

using testing::message_of;

std::string theirs(std::string_view kind, std::string_view dialect,
                   std::string_view ours) {
  for (const NameMap* map : name_maps_of(kind)) {
    if (map->dialect != dialect) continue;
    const TheirNames found = their_names(*map, ours);
    std::string text;
    for (const auto& name : found.names) {
      text.append(text.empty() ? "" : " ").append(name);
    }
    return found.transposed ? text + " transposed" : text;
  }
  return "no such dialect";
}

TEST(NameMap, KeepsTheNamesOfBert) {
  for (const char* name : {"bert.embeddings.word_embeddings.weight",
                           "bert.encoder.layer.11.attention.self.query.weight",
                           "bert.pooler.dense.bias", "qa_outputs.weight"}) {
    EXPECT_EQ(theirs("bert", "huggingface", name), name);
  }
}

TEST(NameMap, TransposesTheConvolutionsOfGpt2) {
  const auto gpt2 = [](std::string_view name) {
    return theirs("gpt2", "huggingface", name);
  };
  for (const char* module :
       {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
    const std::string name =
        std::string("transformer.h.3.") + module + ".weight";
    EXPECT_EQ(gpt2(name), name + " transposed");
  }
  EXPECT_EQ(gpt2("transformer.wte.weight"), "transformer.wte.weight");
  EXPECT_EQ(gpt2("transformer.h.0.ln_1.weight"), "transformer.h.0.ln_1.weight");
  EXPECT_EQ(gpt2("transformer.ln_f.bias"), "transformer.ln_f.bias");
}

TEST(NameMap, HasEveryModuleOfVit) {
  const std::pair<const char*, const char*> rows[] = {
      {"cls_token", "vit.embeddings.cls_token"},
      {"pos_embed", "vit.embeddings.position_embeddings"},
      {"patch_embed.proj.weight",
       "vit.embeddings.patch_embeddings.projection.weight"},
      {"patch_embed.proj.bias",
       "vit.embeddings.patch_embeddings.projection.bias"},
      {"blocks.10.norm1.weight",
       "vit.encoder.layer.10.layernorm_before.weight"},
      {"blocks.10.attn.qkv.bias",
       "vit.encoder.layer.10.attention.attention.query.bias "
       "vit.encoder.layer.10.attention.attention.key.bias "
       "vit.encoder.layer.10.attention.attention.value.bias"},
      {"blocks.10.attn.proj.weight",
       "vit.encoder.layer.10.attention.output.dense.weight"},
      {"blocks.10.norm2.bias", "vit.encoder.layer.10.layernorm_after.bias"},
      {"blocks.10.mlp.fc1.weight",
       "vit.encoder.layer.10.intermediate.dense.weight"},
      {"blocks.10.mlp.fc2.bias", "vit.encoder.layer.10.output.dense.bias"},
      {"norm.weight", "vit.layernorm.weight"},
      {"head.bias", "classifier.bias"}};
  for (const auto& [ours, expected] : rows) {
    EXPECT_EQ(theirs("vit", "huggingface", ours), expected);
    EXPECT_EQ(theirs("vit", "timm", ours), ours);
  }
}

TEST(NameMap, KeepsTheNamesOfTorchvision) {
  EXPECT_EQ(theirs("torchvision", "torchvision", "layer1.0.bn1.running_mean"),
            "layer1.0.bn1.running_mean");
}

TEST(NameMap, SaysWhichKindsThereAre) {
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { name_maps_of("llama"); }),
      "[weights] kinds of models are bert, gpt2, vit and torchvision, got "
      "'llama'");
  std::set<std::string> seen;
  for (const NameMap& map : name_maps()) {
    EXPECT_TRUE(
        seen.insert(std::string(map.kind) + std::string(map.dialect)).second);
  }
}

TEST(NameMap, FitsPatternsWithOneStar) {
  EXPECT_TRUE(fits_pattern("cls.*", "cls.predictions.bias"));
  EXPECT_TRUE(fits_pattern("*.attn.bias", "h.0.attn.bias"));
  EXPECT_FALSE(fits_pattern("*.attn.bias", "h.0.attn.c_attn.bias"));
  EXPECT_FALSE(fits_pattern("ab*ba", "aba"));
  EXPECT_TRUE(fits_pattern("a", "a"));
}

TEST(NameMap, DescribesModelsByTheirShapes) {
  const TensorSpec bert[] = {
      {"bert.embeddings.word_embeddings.weight", {30528, 64}},
      {"bert.embeddings.position_embeddings.weight", {512, 64}},
      {"bert.encoder.layer.0.intermediate.dense.weight", {256, 64}},
      {"bert.encoder.layer.10.output.dense.bias", {64}}};
  ModelConfig config = describe("bert", bert);
  EXPECT_EQ(config.model_type, "bert");
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.vocabulary, 30528);
  EXPECT_EQ(config.positions, 512);
  EXPECT_EQ(config.inner_width, 256);
  EXPECT_EQ(config.layers, 11);
  const TensorSpec vit[] = {{"cls_token", {1, 1, 192}},
                            {"pos_embed", {1, 197, 192}},
                            {"patch_embed.proj.weight", {192, 3, 16, 16}},
                            {"blocks.1.norm1.weight", {192}}};
  config = describe("vit", vit);
  EXPECT_EQ(config.width, 192);
  EXPECT_EQ(config.image_size, 224);
  EXPECT_EQ(config.patch_size, 16);
  EXPECT_EQ(config.layers, 2);
  const TensorSpec gpt2[] = {{"transformer.wte.weight", {50257, 48}},
                             {"transformer.wpe.weight", {1024, 48}},
                             {"transformer.h.0.mlp.c_fc.weight", {192, 48}}};
  config = describe("gpt2", gpt2);
  EXPECT_EQ(config.positions, 1024);
  EXPECT_EQ(config.inner_width, 192);
  EXPECT_EQ(config.layers, 1);
}

}  // namespace
}  // namespace sluice
