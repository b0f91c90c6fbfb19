#include "sluice/weights/weight_index.h"

#include <nlohmann/json.hpp>
#include <set>

#include "sluice/core/ensure.h"
#include "sluice/core/json_check.h"

namespace sluice {
namespace {

constexpr std::size_t kMostShards = 10'000;

void check_shard_name(const std::string& name) {
  const bool plain =
      !name.empty() && name.size() <= 255 && name[0] != '.' &&
      name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  ensure(plain,
         "a shard must be the name of a file beside the index, without "
         "/ and not hidden, is '",
         name.substr(0, 100), "'");
}

}  // namespace

WeightIndex parse_weight_index(const std::string& path, std::string_view text) {
  WeightIndex index;
  try {
    check_json("index", text);
    const auto json = nlohmann::json::parse(text);
    ensure(json.is_object() && json.contains("weight_map") &&
               json["weight_map"].is_object() && !json["weight_map"].empty(),
           "it must have an object 'weight_map' with names of tensors");
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : json["weight_map"].items()) {
      ensure(shard.is_string(), "the shard of '", tensor,
             "' must be a text, is ", shard.dump());
      const auto& name = shard.get_ref<const std::string&>();
      if (shards.insert(name).second) check_shard_name(name);
      ensure(shards.size() <= kMostShards, "it must name at most ", kMostShards,
             " shards, names more");
      index[tensor] = name;
    }
  } catch (const std::exception& e) {
    ensure(false, "[weights] '", path,
           "' must be an index of shards, but: ", e.what());
  }
  return index;
}

}  // namespace sluice
