#include "sluice/weights/model_config.h"

#include <gtest/gtest.h>

#include "files.h"

namespace sluice {
namespace {

using testing::message_of;

ModelConfig parsed(std::string_view text) {
  return parse_model_config("c", text);
}

std::string refused(std::string_view text) {
  const std::string before =
      "[weights] 'c' must be a config.json of Hugging Face, but: ";
  const std::string message =
      message_of<std::runtime_error>([&] { parsed(text); });
  EXPECT_TRUE(message.starts_with(before)) << message;
  return message.substr(before.size());
}

TEST(ModelConfig, ReadsTheKeysOfEachModel) {
  const ModelConfig bert = parsed(
      R"({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12,)"
      R"( "num_attention_heads": 12, "vocab_size": 30522,)"
      R"( "max_position_embeddings": 512, "intermediate_size": 3072,)"
      R"( "layer_norm_eps": 1e-12, "other": [1]})");
  EXPECT_EQ(bert.width, 768);
  EXPECT_EQ(bert.layers, 12);
  EXPECT_EQ(bert.heads, 12);
  EXPECT_EQ(bert.vocabulary, 30522);
  EXPECT_EQ(bert.positions, 512);
  EXPECT_EQ(bert.inner_width, 3072);
  EXPECT_EQ(bert.norm_epsilon, 1e-12);
  const ModelConfig gpt2 = parsed(
      R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 6,)"
      R"( "n_positions": 1024, "n_inner": null, "vocab_size": 50257,)"
      R"( "layer_norm_epsilon": 1e-5})");
  EXPECT_EQ(gpt2.width, 768);
  EXPECT_EQ(gpt2.heads, 6);
  EXPECT_EQ(gpt2.positions, 1024);
  EXPECT_FALSE(gpt2.inner_width.has_value());
  EXPECT_EQ(gpt2.norm_epsilon, 1e-5);
  const ModelConfig vit =
      parsed(R"({"model_type": "vit", "image_size": 224, "patch_size": 16,)"
             R"( "id2label": {"1": "dog", "0": "cat"}})");
  EXPECT_EQ(vit.image_size, 224);
  EXPECT_EQ(vit.patch_size, 16);
  EXPECT_EQ(vit.labels, (std::vector<std::string>{"cat", "dog"}));
}

TEST(ModelConfig, SurvivesATrip) {
  for (const char* type : {"bert", "gpt2", "vit"}) {
    ModelConfig config;
    config.model_type = type;
    config.width = 8;
    config.layers = 2;
    config.heads = 4;
    config.inner_width = 32;
    config.vocabulary = 100;
    config.positions = 16;
    config.norm_epsilon = 1e-6;
    if (config.model_type == "vit") {
      config.image_size = 32;
      config.patch_size = 4;
      config.labels = {"a", "b"};
    }
    EXPECT_EQ(parsed(to_json(config)), config) << type;
  }
  ModelConfig other;
  other.model_type = "resnet";
  EXPECT_EQ(message_of<std::invalid_argument>([&] { to_json(other); }),
            "[weights] a config.json is written for bert, gpt2 and vit, got "
            "'resnet'");
}

TEST(ModelConfig, RefusesKeysOfWrongTypes) {
  EXPECT_CONTAINS(refused("{"), "[config] must be JSON in UTF-8");
  EXPECT_EQ(refused(R"({"hidden_size": "768"})"),
            "'hidden_size' must be a whole number from 1 to 1000000000, is "
            "\"768\"");
  EXPECT_EQ(refused(R"({"num_hidden_layers": -1})"),
            "'num_hidden_layers' must be a whole number from 1 to 1000000000, "
            "is -1");
  EXPECT_EQ(refused(R"({"vocab_size": 1e9})"),
            "'vocab_size' must be a whole number from 1 to 1000000000, is "
            "1000000000.0");
  EXPECT_EQ(refused(R"({"model_type": 1})"),
            "'model_type' must be a text, is 1");
  EXPECT_EQ(refused(R"({"layer_norm_eps": 0})"),
            "'layer_norm_eps' must be a number above 0 and below 1, is 0");
  EXPECT_EQ(refused(R"({"id2label": {"0": "a", "2": "b"}})"),
            "'id2label' must have the numbers from 0 to 1, has '2'");
  EXPECT_EQ(refused(R"({"id2label": {"0": "a", "00": "b"}})"),
            "'id2label' must have the numbers from 0 to 1, has '00'");
  EXPECT_EQ(refused(R"({"id2label": {"0": 1}})"),
            "'id2label' must have texts, '0' is number");
}

TEST(ModelConfig, TellsWhereModelsDiffer) {
  ModelConfig file, model;
  file.model_type = model.model_type = "bert";
  file.layers = 24;
  model.layers = 12;
  file.vocabulary = 30522;
  model.vocabulary = 30528;
  file.width = 1024;
  file.positions = 512;
  model.positions = 384;
  EXPECT_EQ(
      disagreements(file, model),
      (std::vector<std::string>{"num_hidden_layers is 24, the model has 12"}));
  model.vocabulary = 30522 + kMostPadding + 1;
  model.layers = 24;
  EXPECT_EQ(
      disagreements(file, model),
      (std::vector<std::string>{"vocab_size is 30522, the model has 30650"}));
  file.model_type = "roberta";
  EXPECT_EQ(
      disagreements(file, model),
      (std::vector<std::string>{"model_type is roberta, the model has bert"}));
}

}  // namespace
}  // namespace sluice
