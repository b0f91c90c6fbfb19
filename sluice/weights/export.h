#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/weights/name_map.h"

namespace sluice {

struct NamedValues {
  TensorSpec spec;
  std::span<const float> values;  // row after row
};

struct ExportOptions {
  std::string kind;     // "bert", "gpt2", "vit", "torchvision"
  std::string dialect;  // "" for the kind's first
  // Rows of the matrix of words that count: those behind are padding and are
  // cut. 0: all.
  std::int64_t vocabulary = 0;
  std::map<std::string, std::string> metadata;
};

// Writes the tensors of a model as a file of safetensors, in fp32, named,
// turned and split as others have them; a matrix that is tied is written once.
// Returns what was done about rows, for people. Throws std::invalid_argument
// for an unknown kind or dialect, for values that do not fit their shape, and
// for more rows than there are; std::runtime_error, with tensor and index, for
// values that are not finite, and if the disk fails.
std::vector<std::string> export_weights(const std::string& path,
                                        const ExportOptions& options,
                                        std::span<const NamedValues> tensors);

}  // namespace sluice
