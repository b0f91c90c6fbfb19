#include "sluice/config/preset.h"

#include <algorithm>

#include "sluice/config/preset_values.h"
#include "sluice/core/error.h"
#include "sluice/core/nearest_name.h"

namespace sluice {
namespace {

std::vector<Preset> make_presets() {
  std::vector<Preset> all = preset::vision();
  for (const auto& more : {preset::language(), preset::speech()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> kPresets = make_presets();
  return kPresets;
}

void apply_preset(TrainConfig& config, std::string_view name) {
  const auto all = presets();
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const Preset& p) { return p.name == name; });
  if (it == all.end()) {
    std::vector<std::string_view> names;
    for (const Preset& p : all) names.push_back(p.name);
    throw std::invalid_argument(
        concat("[train] no preset '", name, "'; did you mean '",
               nearest_name(names, name), "'? `sluice list presets` has all"));
  }
  const ParamList params = params_of(config);
  const std::string owner = concat("preset '", name, "'");
  for (const auto& [key, text] : it->values) {
    set_param(params, owner, key, text);
  }
}

std::vector<Description> preset_descriptions() {
  TrainConfig config;
  const ParamList params = params_of(config);
  std::vector<Description> all;
  for (const Preset& preset : presets()) {
    Description d{preset.name, preset.source, {}};
    for (const auto& [key, text] : preset.values) {
      const auto it =
          std::find_if(params.begin(), params.end(),
                       [&](const Param& p) { return p.name == key; });
      d.parameters.push_back({std::string(key), std::string(text),
                              it == params.end() ? "" : std::string(it->doc)});
    }
    all.push_back(std::move(d));
  }
  return all;
}

}  // namespace sluice
