#pragma once

#include <map>
#include <span>
#include <string>

#include "sluice/weights/weights.h"

namespace sluice {

// The format's own limit.
inline constexpr std::size_t kMostSafetensorsHeader = 100'000'000;

// A file of safetensors. Throws std::runtime_error with what is wrong: lengths,
// JSON, types, shapes, and tensors that do not fill the file one behind
// another.
Weights read_safetensors(const std::string& path);

// Writes one that appears whole or not at all. The same tensors and metadata
// give the same bytes, whatever their order; data begins at a multiple of 64
// bytes, and every tensor at one of its elements' size. Throws
// std::invalid_argument for a name that is there twice or is "__metadata__", or
// bytes that do not fit the shape; std::runtime_error if the disk fails.
void write_safetensors(const std::string& path,
                       std::span<const WeightTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace sluice
