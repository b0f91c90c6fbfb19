#include "sluice/report/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "sluice/config/config.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostColumns = 12;

const Json& defaults() {
  static const Json json = Json::parse(to_json(TrainConfig()));
  return json;
}

std::string text_of(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./:=,@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
    return text;
  }
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

// Keys that are not as they are by default, in the order of the file.
std::vector<std::string> changed_keys(const Json& config) {
  std::vector<std::string> keys;
  if (!config.is_object()) return keys;
  for (const auto& [key, value] : config.items()) {
    const auto usual = defaults().find(key);
    if (usual == defaults().end() || *usual != value) keys.push_back(key);
  }
  return keys;
}

}  // namespace

std::string setting(const Json& config, const std::string& key) {
  if (!config.is_object()) return {};
  const auto it = config.find(key);
  return it == config.end() ? std::string() : text_of(*it);
}

bool sends_all(const Json& config) {
  return setting(config, "sparsifier") == "none";
}

std::string method_of(const Json& config) {
  const std::string sparsifier = setting(config, "sparsifier");
  const std::string collective = setting(config, "collective");
  if (sends_all(config)) {
    return collective.find("bf16") != std::string::npos ? "dense-bf16"
                                                        : "dense";
  }
  if (sparsifier.empty()) return "unknown";
  const std::string feedback = setting(config, "feedback");
  std::string name = sparsifier;
  const bool usual = feedback.starts_with("residual") || feedback.empty() ||
                     (sparsifier == "dgc" && feedback.starts_with("dgc"));
  const bool by_auto = collective == "auto" || collective.empty();
  if (!usual || !by_auto) name += "+" + feedback.substr(0, feedback.find(':'));
  if (!by_auto) name += "+" + collective;
  return name;
}

double density_of(const Json& config) {
  if (sends_all(config) || !config.is_object()) return 1;
  const Json value = config.value("density", Json());
  return value.is_number() ? value.get<double>() : 1;
}

std::string density_text(const Json& config) {
  if (sends_all(config) || setting(config, "density").empty()) return {};
  return fmt::format("{:g} %", 100 * density_of(config));
}

std::string job_title(const Json& config) {
  const std::string model = setting(config, "model");
  if (model.empty()) return "A run";
  return model + " on " + setting(config, "dataset");
}

std::string job_setting(const Json& config) {
  if (!config.is_object()) return {};
  const std::string net = setting(config, "net");
  const std::string engine = setting(config, "engine");
  const std::string device = setting(config, "device");
  std::string text =
      fmt::format("{} workers of batch {}", setting(config, "workers"),
                  setting(config, "batch_size"));
  if (!engine.empty()) text += " (" + engine + ")";
  if (!net.empty()) text += ", network " + net;
  if (!device.empty() && device != "cpu") text += ", " + device;
  return text;
}

std::string command_of(const Json& config) {
  std::string command = "sluice train";
  for (const std::string& key : changed_keys(config)) {
    std::string flag = key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    command += " --" + flag + " " + quoted(setting(config, key));
  }
  return command;
}

PageTable settings_table(const Json& config) {
  PageTable table{"Settings that are not the defaults",
                  {{"setting", ""}, {"here", ""}, {"default", ""}},
                  {},
                  ""};
  for (const std::string& key : changed_keys(config)) {
    table.rows.push_back({text_cell(key), text_cell(setting(config, key)),
                          text_cell(setting(defaults(), key))});
  }
  return table;
}

PageTable differences_table(const std::vector<std::string>& names,
                            const std::vector<Json>& configs) {
  PageTable table{"Settings in which they differ", {{"setting", ""}}, {}, ""};
  const std::size_t columns = std::min(names.size(), kMostColumns);
  for (std::size_t i = 0; i < columns; ++i) {
    table.heads.push_back({names[i], ""});
  }
  if (columns < names.size()) {
    table.note = fmt::format("The first {} of {} runs.", columns, names.size());
  }
  for (const auto& [key, usual] : defaults().items()) {
    if (key == "out" || key == "seed") continue;
    std::vector<TableCell> row = {text_cell(key)};
    bool differs = false;
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const std::string value = setting(configs[i], key);
      differs = differs || value != setting(configs[0], key);
      if (i < columns) row.push_back(text_cell(value.empty() ? "-" : value));
    }
    if (differs) table.rows.push_back(std::move(row));
  }
  return table;
}

PageTable about_table(const Json& about) {
  PageTable table{"Program and machine", {{"what", ""}, {"is", ""}}, {}, ""};
  if (!about.is_object()) return table;
  for (const auto& [key, value] : about.items()) {
    table.rows.push_back({text_cell(key), text_cell(text_of(value))});
  }
  return table;
}

}  // namespace sluice
