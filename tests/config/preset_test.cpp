#include "sluice/config/preset.h"

#include <set>

#include "files.h"

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
    EXPECT_TRUE(preset.name.starts_with(parse_spec(config.model).name));
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
