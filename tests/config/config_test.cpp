#include "sluice/config/config.h"

#include "files.h"

namespace sluice {
namespace {

using testing::message_of;

TEST(TrainConfig, SurvivesJson) {
  TrainConfig config;
  config.model = "mlp:widths=3";
  config.lr = 0.1;
  config.max_steps = 123456789012;
  config.trace = "3:4";
  TrainConfig again;
  change_by_json(again, "test", to_json(config));
  EXPECT_EQ(difference(config, again), "");
  EXPECT_EQ(difference(TrainConfig(), config), "model: 'mlp', 'mlp:widths=3'");
}

TEST(TrainConfig, ChangesOnlyWhatIsThere) {
  TrainConfig config;
  change_by_json(config, "test", R"({"lr": 2, "epochs": 7})");
  EXPECT_EQ(config.lr, 2);
  EXPECT_EQ(config.epochs, 7);
  EXPECT_EQ(config.model, TrainConfig().model);
}

TEST(TrainConfig, NamesTheNearestKey) {
  const auto says = [](const char* json) {
    TrainConfig config;
    return message_of<std::invalid_argument>(
        [&] { change_by_json(config, "c.json", json); });
  };
  EXPECT_EQ(says(R"({"bach_size": 3})"),
            "[c.json] no key 'bach_size'; did you mean 'batch_size'?");
  EXPECT_EQ(says(R"({"max-steps": 3})"),
            "[c.json] no key 'max-steps'; did you mean 'max_steps'?");
  EXPECT_CONTAINS(says(R"({"lr": null})"), "'lr' must be a number");
  EXPECT_CONTAINS(says(R"({"batch_size": 0.5})"), "whole number");
  EXPECT_CONTAINS(says("3"), "JSON object");
  EXPECT_CONTAINS(says("{\n\"lr\" 3}"), "line 2, column 6");
  EXPECT_EQ(says(R"({"lr": 1, "lr": 2})"),
            "[c.json] key 'lr' must be there once per object, is there twice");
  const std::string deep = "{\"lr\": " + std::string(100'000, '[');
  EXPECT_EQ(says(deep.c_str()),
            "[c.json] must be at most 64 levels deep, is deeper");
}

TEST(TrainConfig, ClipsTensorsOnlyWhereItClips) {
  TrainConfig config;
  EXPECT_NO_THROW(check_config(config));
  config.clip_norm = "tensor";
  EXPECT_EQ(message_of<std::invalid_argument>([&] { check_config(config); }),
            "[train] parameter 'clip_norm' tensor needs a clip or a clip_local "
            "above 0, got 0 and 0");
  config.clip_local = 0.1;
  EXPECT_NO_THROW(check_config(config));
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              change_by_json(config, "c.json", R"({"clip_norm": "layer"})");
            }),
            "[c.json] parameter 'clip_norm' must be one of global tensor, got "
            "'layer'");
}

TEST(TrainConfig, ReadsDevices) {
  EXPECT_TRUE(parse_device("cpu").is_cpu);
  EXPECT_FALSE(parse_device("cuda").is_cpu);
  EXPECT_FALSE(parse_device("cuda").number.has_value());
  EXPECT_EQ(parse_device("cuda:3").number, 3U);
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:999"}) {
    EXPECT_CONTAINS(
        message_of<std::invalid_argument>([&] { parse_device(text); }),
        "'device' must be cpu, cuda, or a GPU by its number as in cuda:1");
  }
}

TEST(TrainConfig, ChoosesByDevice) {
  TrainConfig config;
  choose_device(config);
  EXPECT_EQ(config.tf32 + " " + config.channels_last, "off off");
  config = {};
  config.device = "cuda:1";
  config.channels_last = "off";
  choose_device(config);
  EXPECT_EQ(config.tf32 + " " + config.channels_last, "on off");
  // What is planned by is measured: this is what runs until then.
  EXPECT_EQ(config.plan, "auto");
  EXPECT_EQ(first_plan(config), "single");
  EXPECT_EQ(first_plan({}), "size=1M");
}

TEST(TrainConfig, ReadsPeriodsAndRanges) {
  EXPECT_EQ(parse_every("x", "100").period(7), 100);
  EXPECT_EQ(parse_every("x", "2e").period(7), 14);
  EXPECT_EQ(parse_every("x", "").period(7), 0);
  EXPECT_EQ(parse_every("x", "30s").period(7), 0);
  EXPECT_EQ(parse_every("x", "30s").count, 30);
  EXPECT_TRUE(parse_step_range("3:5").has(5));
  EXPECT_FALSE(parse_step_range("3:5").has(6));
  EXPECT_TRUE(parse_step_range("3").has(3));
  EXPECT_FALSE(parse_step_range("").has(0));
  for (const char* text : {"e", "s", "1es", "-1", "1.5", "1e3", "x"}) {
    EXPECT_CONTAINS(
        message_of<std::invalid_argument>([&] { parse_every("x", text); }),
        "number of steps (100), of epochs (1e) or of seconds (30s)");
  }
  for (const char* text : {"0:2", "3:2", ":", "1:x"}) {
    EXPECT_CONTAINS(
        message_of<std::invalid_argument>([&] { parse_step_range(text); }),
        "FIRST:LAST");
  }
}

}  // namespace
}  // namespace sluice
