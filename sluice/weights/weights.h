#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/weights/model_config.h"

// Trained weights as others save them: by name, of files that anyone may have
// written. Everything here throws std::runtime_error, "[weights] ..." with the
// path, for files that are not what they should be.

namespace sluice {

enum class WeightType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool
};
std::size_t bytes_of(WeightType type);
// As safetensors spells them: "BF16".
std::string_view name_of(WeightType type);
std::optional<WeightType> weight_type(std::string_view name);
bool is_floating(WeightType type);

using Dims = std::vector<std::int64_t>;
// "2 x 3"; "scalar" if there are none.
std::string text_of(const Dims& dims);
// Elements; none if a dimension is negative or they are more than 2^62.
std::optional<std::int64_t> elements_of(const Dims& dims);

struct WeightTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  Dims dims;
  // Little endian, row after row, aligned to nothing. Of whoever gave them: the
  // `owners` of a Weights.
  std::span<const std::byte> bytes;
};

// What a file or a folder holds. Copies share the bytes, which are pages of the
// files: files must not be cut while a Weights lives.
struct Weights {
  std::string path;
  std::string format;                 // "safetensors", "torch.save"
  std::vector<WeightTensor> tensors;  // by name, each once
  std::map<std::string, std::string> metadata;
  // For people: what was chosen or passed over in reading.
  std::vector<std::string> notes;
  // Of the config.json beside it, if any.
  std::optional<ModelConfig> config;
  std::vector<std::shared_ptr<const void>> owners;

  // Null if there is none.
  const WeightTensor* find(std::string_view name) const;
};

// Reads a file of safetensors or torch.save, or a folder as Hugging Face saves
// them: model.safetensors or pytorch_model.bin, or their index and shards, with
// config.json. Which one it is, the content says, not the name.
Weights open_weights(const std::string& path);

// Sorts the tensors, and refuses a name that is there twice. For readers.
void sort_by_name(Weights& weights);

}  // namespace sluice
