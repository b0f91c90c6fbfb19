#include "sluice/config/preset.h"

#include <set>

#include "files.h"
#include "sluice/config/recipe.h"

namespace sluice::testing {
namespace {

TEST(Preset, EachIsAConfigurationThatMakesSense) {
  std::set<std::string_view> names;
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    EXPECT_TRUE(names.insert(preset.name).second);
    EXPECT_FALSE(preset.source.empty());
    TrainConfig config;
    EXPECT_NO_THROW(apply_preset(config, preset.name));
    EXPECT_NO_THROW(check_config(config));
    // Its family: bert-base is of bert.
    const std::string model = parse_spec(config.model).name;
    EXPECT_TRUE(preset.name.starts_with(model.substr(0, model.find('-'))));
  }
}

// Or all of it would be applied twice, once here and once there.
TEST(Preset, HasItsMomentumInOnePlaceAtMost) {
  for (const Preset& preset : presets()) {
    TrainConfig config;
    apply_preset(config, preset.name);
    if (!config.optimizer.starts_with("sgd")) continue;
    const bool optimizer = !config.optimizer.starts_with("sgd:momentum=0,") &&
                           config.optimizer != "sgd:momentum=0";
    EXPECT_FALSE(optimizer && config.feedback.starts_with("dgc"))
        << preset.name;
  }
}

TrainConfig configured(std::string_view name) {
  TrainConfig config;
  apply_preset(config, name);
  return config;
}

TEST(Preset, LanguageAndSpeechAreAsPublished) {
  const TrainConfig ptb = configured("lstm-ptb-omgs");
  EXPECT_EQ(ptb.lr, 22);
  EXPECT_EQ(ptb.clip, 0.25);
  EXPECT_EQ(ptb.length, 35);
  EXPECT_EQ(ptb.density, 0.001);
  EXPECT_EQ(ptb.lr_schedule, "steps:at=63-80,factors=0.01-0.001");
  EXPECT_EQ(configured("lstm-ptb-gtopk").collective, "gtopk");
  EXPECT_EQ(configured("lstm-ptb-gtopk").lr, 1);
  EXPECT_EQ(configured("lstm-ptb-sidco").sparsifier, "sidco-e");
  const TrainConfig wikitext = configured("lstm-wikitext2-adtopk");
  EXPECT_EQ(wikitext.optimizer, "adam:weight_decay=0.0000012");
  EXPECT_CONTAINS(wikitext.lr_schedule, "per_worker=true");
  EXPECT_EQ(wikitext.length, 70);
  EXPECT_EQ(configured("transformer-wikitext2-adtopk").length, 100);
  EXPECT_EQ(configured("lstm-wikitext2-convergence").lr, 2);
  EXPECT_EQ(configured("bert-base-squad-adtopk").optimizer, "bertadam");
  EXPECT_EQ(configured("bert-large-squad-adtopk").density, 0.1);
  EXPECT_EQ(configured("gpt2-wikitext103-adtopk").lr, 5e-5);
  EXPECT_EQ(configured("deepspeech-an4-sidco").model, "deepspeech:width=1024");
  EXPECT_EQ(configured("deepspeech-an4-gtopk").clip, 400);
  for (const Preset& preset : presets()) {
    const std::string model = parse_spec(configured(preset.name).model).name;
    if (default_recipe(model).prefix.empty()) continue;
    // Images alone have none; speech goes by its clips.
    EXPECT_EQ(configured(preset.name).length > 0, model != "deepspeech")
        << preset.name;
  }
}

// The presets to begin with, and those of Sluice itself.
TEST(Preset, HasNoNoteUnlessOfAPaper) {
  for (const char* name :
       {"lstm-ptb", "lstm-wikitext2", "transformer-wikitext2",
        "bert-base-squad", "bert-large-squad", "gpt2-wikitext103",
        "deepspeech-an4", "lstm-kjv-small", "transformer-kjv-small",
        "gpt2-kjv-small", "bert-questions-small", "deepspeech-prompts-small",
        "vgg16-cifar10", "mlp-fashion-mnist"}) {
    EXPECT_EQ(recipe_note(configured(name)), "") << name;
  }
  EXPECT_CONTAINS(recipe_note(configured("bert-base-squad-adtopk")),
                  "bertadam:beta1=0 does not");
}

TEST(Preset, LeavesTheRestAlone) {
  TrainConfig config;
  config.seed = 9;
  config.data_dir = "here";
  apply_preset(config, "resnet50-cifar100-adtopk");
  EXPECT_EQ(config.seed, 9);
  EXPECT_EQ(config.data_dir, "here");
  EXPECT_EQ(config.lr, 0.0125);
  EXPECT_EQ(config.no_feedback, "fc.weight");
}

TEST(Preset, NamesTheNearest) {
  TrainConfig config;
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { apply_preset(config, "alexnet-imagnet"); }),
            "[train] no preset 'alexnet-imagnet'; did you mean "
            "'alexnet-imagenet'? `sluice list presets` has all");
}

}  // namespace
}  // namespace sluice::testing
