#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// What config.json of Hugging Face says about a model, as far as it tells
// whether weights fit. Keys that a file does not have stay empty.
struct ModelConfig {
  std::string model_type;  // "bert", "gpt2", "vit"
  std::optional<std::int64_t> width, layers, heads, inner_width;
  std::optional<std::int64_t> vocabulary, positions;
  std::optional<std::int64_t> image_size, patch_size;
  std::optional<double> norm_epsilon;
  std::vector<std::string> labels;  // of id2label, by number

  bool operator==(const ModelConfig&) const = default;
};

// Reads the few keys that are named above (as bert, gpt2 and vit name them) and
// passes over all others. Throws std::runtime_error, beginning with "[weights]
// 'path'", for what is not JSON and for keys of the wrong type or range.
ModelConfig parse_model_config(const std::string& path, std::string_view text);
ModelConfig read_model_config(const std::string& path);

// A config.json that Hugging Face's classes read: the keys as `model_type`
// names them. Throws std::invalid_argument for another type.
std::string to_json(const ModelConfig& config);

// A line each, such as "num_hidden_layers is 24, the model has 12", for what
// both have and do not agree on. A vocabulary may be padded (see kMostPadding),
// the model may have fewer positions, and labels may differ.
std::vector<std::string> disagreements(const ModelConfig& file,
                                       const ModelConfig& model);

// Rows of zeros by which a vocabulary is made a round number, at most. Above:
// it is another vocabulary.
inline constexpr std::int64_t kMostPadding = 127;

}  // namespace sluice
