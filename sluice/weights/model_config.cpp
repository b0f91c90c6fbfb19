#include "sluice/weights/model_config.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/run/json_count.h"

namespace sluice {
namespace {

// By name: one in the order of the file takes squares of time to read.
using ConfigJson = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct CountKey {
  std::optional<std::int64_t> ModelConfig::*member;
  std::string_view key;   // of bert and vit
  std::string_view gpt2;  // "" if it has none
};
constexpr CountKey kCounts[] = {
    {&ModelConfig::width, "hidden_size", "n_embd"},
    {&ModelConfig::layers, "num_hidden_layers", "n_layer"},
    {&ModelConfig::heads, "num_attention_heads", "n_head"},
    {&ModelConfig::inner_width, "intermediate_size", "n_inner"},
    {&ModelConfig::vocabulary, "vocab_size", "vocab_size"},
    {&ModelConfig::positions, "max_position_embeddings", "n_positions"},
    {&ModelConfig::image_size, "image_size", ""},
    {&ModelConfig::patch_size, "patch_size", ""}};

// Far above any model.
constexpr std::uint64_t kMostCount = 1'000'000'000;
constexpr std::size_t kMostLabels = 1'000'000;

const ConfigJson* find_key(const ConfigJson& json, std::string_view key) {
  const auto found = json.find(std::string(key));
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

bool is_gpt2(const ModelConfig& config) { return config.model_type == "gpt2"; }

std::string_view key_of(const CountKey& row, const ModelConfig& config) {
  return is_gpt2(config) ? row.gpt2 : row.key;
}

std::string_view epsilon_key(const ModelConfig& config) {
  return is_gpt2(config) ? "layer_norm_epsilon" : "layer_norm_eps";
}

void read_counts(const ConfigJson& json, ModelConfig& config) {
  for (const CountKey& row : kCounts) {
    const std::string_view key = key_of(row, config);
    const ConfigJson* value = key.empty() ? nullptr : find_key(json, key);
    if (value == nullptr) continue;
    const auto count = count_in(*value, 1, kMostCount);
    ensure(count.has_value(), "'", key, "' must be a whole number from 1 to ",
           kMostCount, ", is ", value->dump());
    config.*row.member = static_cast<std::int64_t>(*count);
  }
}

void read_epsilon(const ConfigJson& json, ModelConfig& config) {
  const std::string_view key = epsilon_key(config);
  const ConfigJson* value = find_key(json, key);
  if (value == nullptr) return;
  const double epsilon = value->is_number() ? value->get<double>() : -1;
  ensure(epsilon > 0 && epsilon < 1, "'", key,
         "' must be a number above 0 and below 1, is ", value->dump());
  config.norm_epsilon = epsilon;
}

void read_labels(const ConfigJson& json, ModelConfig& config) {
  const ConfigJson* value = find_key(json, "id2label");
  if (value == nullptr) return;
  ensure(value->is_object() && value->size() <= kMostLabels,
         "'id2label' must be an object of at most ", kMostLabels, " labels");
  // Keys may come in any order, each number once.
  config.labels.resize(value->size());
  std::vector<bool> seen(value->size());
  for (const auto& [key, label] : value->items()) {
    char* end = nullptr;
    const unsigned long i = std::strtoul(key.c_str(), &end, 10);
    ensure(!key.empty() && key.find_first_not_of("0123456789") == key.npos &&
               i < seen.size() && !seen[i],
           "'id2label' must have the numbers from 0 to ", seen.size() - 1,
           ", has '", key, "'");
    ensure(label.is_string(), "'id2label' must have texts, '", key, "' is ",
           label.type_name());
    seen[i] = true;
    config.labels[i] = label.get<std::string>();
  }
}

void add_architecture(const ModelConfig& config, OrderedJson& json) {
  if (config.model_type == "bert") {
    json["architectures"] = {"BertForQuestionAnswering"};
    json["hidden_act"] = "gelu";
    json["type_vocab_size"] = 2;
  } else if (is_gpt2(config)) {
    json["architectures"] = {"GPT2LMHeadModel"};
    json["activation_function"] = "gelu_new";
  } else {
    json["architectures"] = {"ViTForImageClassification"};
    json["hidden_act"] = "gelu";
    json["qkv_bias"] = true;
  }
  json["torch_dtype"] = "float32";
}

void add_labels(const ModelConfig& config, OrderedJson& json) {
  if (config.labels.empty()) return;
  OrderedJson names = OrderedJson::object(), numbers = OrderedJson::object();
  for (std::size_t i = 0; i < config.labels.size(); ++i) {
    names.emplace(std::to_string(i), config.labels[i]);
    numbers.emplace(config.labels[i], i);
  }
  json["id2label"] = names;
  json["label2id"] = numbers;
}

}  // namespace

ModelConfig parse_model_config(const std::string& path, std::string_view text) {
  ModelConfig config;
  try {
    check_json("config", text);
    const ConfigJson json = ConfigJson::parse(text);
    ensure(json.is_object(), "it must be an object, is ", json.type_name());
    if (const ConfigJson* type = find_key(json, "model_type")) {
      ensure(type->is_string(), "'model_type' must be a text, is ",
             type->dump());
      config.model_type = type->get<std::string>();
    }
    read_counts(json, config);
    read_epsilon(json, config);
    read_labels(json, config);
  } catch (const std::exception& e) {
    ensure(false, "[weights] '", path,
           "' must be a config.json of Hugging "
           "Face, but: ",
           e.what());
  }
  return config;
}

ModelConfig read_model_config(const std::string& path) {
  return parse_model_config(path, read_text_file("weights", path));
}

std::string to_json(const ModelConfig& config) {
  require(config.model_type == "bert" || config.model_type == "gpt2" ||
              config.model_type == "vit",
          "[weights] a config.json is written for bert, gpt2 and vit, got '",
          config.model_type, "'");
  OrderedJson json = {{"model_type", config.model_type}};
  add_architecture(config, json);
  for (const CountKey& row : kCounts) {
    const std::string_view key = key_of(row, config);
    const auto& value = config.*row.member;
    if (!key.empty() && value) json[std::string(key)] = *value;
  }
  if (config.norm_epsilon) {
    json[std::string(epsilon_key(config))] = *config.norm_epsilon;
  }
  add_labels(config, json);
  return json.dump(2) + "\n";
}

std::vector<std::string> disagreements(const ModelConfig& file,
                                       const ModelConfig& model) {
  std::vector<std::string> found;
  const auto differ = [&](std::string_view key, const auto& a, const auto& b) {
    found.push_back(concat(key, " is ", a, ", the model has ", b));
  };
  if (!file.model_type.empty() && file.model_type != model.model_type) {
    differ("model_type", file.model_type, model.model_type);
    return found;
  }
  for (const CountKey& row : kCounts) {
    const auto& a = file.*row.member;
    const auto& b = model.*row.member;
    if (!a || !b) continue;
    const bool padded = row.member == &ModelConfig::vocabulary &&
                        std::abs(*a - *b) <= kMostPadding;
    const bool shorter = row.member == &ModelConfig::positions && *a > *b;
    if (*a != *b && !padded && !shorter) differ(key_of(row, file), *a, *b);
  }
  if (file.norm_epsilon && model.norm_epsilon &&
      *file.norm_epsilon != *model.norm_epsilon) {
    differ(epsilon_key(file), *file.norm_epsilon, *model.norm_epsilon);
  }
  return found;
}

}  // namespace sluice
