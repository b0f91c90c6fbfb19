#pragma once

#include <map>
#include <string>
#include <string_view>

namespace sluice {

// Which shard, a file beside the index, has which tensor.
using WeightIndex = std::map<std::string, std::string>;

// The weight_map of a model.safetensors.index.json. Throws std::runtime_error,
// beginning with "[weights] 'path'", for what is none, for shards that are not
// plain names in the same folder, and for more than 10,000 of them.
WeightIndex parse_weight_index(const std::string& path, std::string_view text);

}  // namespace sluice
