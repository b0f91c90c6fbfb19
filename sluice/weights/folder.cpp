#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/weights/mapped_file.h"
#include "sluice/weights/safetensors.h"
#include "sluice/weights/torch_file.h"
#include "sluice/weights/weight_index.h"
#include "sluice/weights/weights.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhole[] = {"model.safetensors",
                                       "pytorch_model.bin"};
constexpr std::string_view kIndexed[] = {"model.safetensors.index.json",
                                         "pytorch_model.bin.index.json"};

enum class Content { kSafetensors, kZip, kOldPickle, kLfsPointer, kOther };

Content content_of(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 64));
  if (start.starts_with("PK\3\4")) return Content::kZip;
  if (start.starts_with("version https://git-lfs")) return Content::kLfsPointer;
  if (start.size() > 8 && start[8] == '{') return Content::kSafetensors;
  if (start.starts_with("\x80\2")) return Content::kOldPickle;
  // A damaged one should hear what is wrong with it.
  if (path.ends_with(".safetensors")) return Content::kSafetensors;
  return Content::kOther;
}

Weights read_weight_file(const std::string& path) {
  switch (content_of(path)) {
    case Content::kSafetensors:
      return read_safetensors(path);
    case Content::kZip:
      return read_torch_file(path);
    case Content::kOldPickle:
      ensure(false, "[weights] '", path,
             "' is of torch.save before 1.6, which is not read; in Python: "
             "torch.save(torch.load(PATH), NEW) with torch 1.6 or newer");
      break;
    case Content::kLfsPointer:
      ensure(false, "[weights] '", path,
             "' only says where git lfs keeps the file; run git lfs pull");
      break;
    case Content::kOther:
      ensure(false, "[weights] '", path,
             "' must be a file of safetensors or of torch.save, or a folder "
             "with one, is neither");
      break;
  }
  return {};
}

// What the index says must be what the shards have, name by name.
void check_shard(const std::string& path, const WeightIndex& index,
                 const std::string& shard, const Weights& part) {
  for (const auto& [name, where] : index) {
    ensure(where != shard || part.find(name) != nullptr, "[weights] '", path,
           "' says that '", name, "' is in '", shard,
           "', which does not have it; download both anew");
  }
  for (const WeightTensor& tensor : part.tensors) {
    const auto found = index.find(tensor.name);
    ensure(found != index.end() && found->second == shard, "[weights] '", path,
           "' must say that '", tensor.name, "' is in '", shard, "', says ",
           found == index.end() ? "nothing" : concat("'", found->second, "'"),
           "; download both anew");
  }
}

Weights read_shards(const fs::path& folder, std::string_view name) {
  const std::string path = (folder / name).string();
  const WeightIndex index =
      parse_weight_index(path, read_text_file("weights", path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.insert(shard);
  Weights all;
  for (const std::string& shard : shards) {
    Weights part = read_weight_file((folder / shard).string());
    check_shard(path, index, shard, part);
    all.format = concat(part.format, " in ", shards.size(), " shards");
    std::move(part.tensors.begin(), part.tensors.end(),
              std::back_inserter(all.tensors));
    std::move(part.owners.begin(), part.owners.end(),
              std::back_inserter(all.owners));
    all.metadata.merge(part.metadata);
    for (const std::string& note : part.notes) {
      all.notes.push_back(concat(shard, ": ", note));
    }
  }
  return all;
}

Weights read_folder(const fs::path& folder) {
  const auto there = [&](std::string_view name) {
    std::error_code ignored;
    return fs::exists(folder / name, ignored);
  };
  for (std::size_t i = 0; i < std::size(kWhole); ++i) {
    if (there(kWhole[i]))
      return read_weight_file((folder / kWhole[i]).string());
    if (there(kIndexed[i])) return read_shards(folder, kIndexed[i]);
  }
  ensure(false, "[weights] folder '", folder.string(),
         "' must have model.safetensors, model.safetensors.index.json, "
         "pytorch_model.bin or pytorch_model.bin.index.json, has none; name "
         "the file itself if it is called otherwise");
  return {};
}

}  // namespace

Weights open_weights(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_weight_file(path);
  const fs::path folder = path;
  Weights weights = read_folder(folder);
  weights.path = path;
  sort_by_name(weights);
  const fs::path config = folder / "config.json";
  if (fs::exists(config, ignored)) {
    weights.config = read_model_config(config.string());
  }
  return weights;
}

}  // namespace sluice
