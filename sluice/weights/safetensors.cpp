#include "sluice/weights/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "sluice/core/atomic_file.h"
#include "sluice/core/ensure.h"
#include "sluice/core/json_check.h"
#include "sluice/run/json_count.h"
#include "sluice/weights/mapped_file.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are little endian");

using Json = nlohmann::json;
using SafeBytes = std::span<const std::byte>;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kHeaderAlign = 64;
constexpr std::size_t kMostDims = 64;
constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 62;

std::string_view header_of(SafeBytes file) {
  ensure(file.size() >= 8, "it must begin with 8 bytes of length, has ",
         file.size(), " in all");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  ensure(length <= kMostSafetensorsHeader, "its header must have at most ",
         kMostSafetensorsHeader, " bytes, says ", length);
  ensure(length <= file.size() - 8, "its header says ", length,
         " bytes, but only ", file.size() - 8, " follow; is it cut short?");
  return {reinterpret_cast<const char*>(file.data()) + 8,
          static_cast<std::size_t>(length)};
}

Json parsed(std::string_view header) {
  check_json("header", header);
  Json json = Json::parse(header);
  ensure(json.is_object(), "its header must be a JSON object, is ",
         json.type_name());
  return json;
}

void read_metadata(const Json& json, Weights& weights) {
  ensure(json.is_object(), "'__metadata__' must be an object of strings, is ",
         json.type_name());
  for (const auto& [key, value] : json.items()) {
    ensure(value.is_string(), "'__metadata__' must be an object of strings, '",
           key, "' is ", value.type_name());
    weights.metadata[key] = value.get<std::string>();
  }
}

const Json& field(const std::string& tensor, const Json& json,
                  const char* key) {
  const auto found = json.find(key);
  ensure(found != json.end(), "tensor '", tensor, "' must have '", key, "'");
  return *found;
}

WeightType type_of(const std::string& tensor, const Json& json) {
  const auto type = json.is_string()
                        ? weight_type(json.get_ref<const std::string&>())
                        : std::nullopt;
  ensure(type.has_value(), "tensor '", tensor,
         "' must be of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL, is of ",
         json.dump());
  return *type;
}

Dims dims_from(const std::string& tensor, const Json& json) {
  ensure(json.is_array() && json.size() <= kMostDims, "the shape of '", tensor,
         "' must be a list of at most ", kMostDims, " numbers");
  Dims dims;
  for (const Json& dim : json) {
    const auto n = count_in(dim, 0, kMostNumber);
    ensure(n.has_value(), "the shape of '", tensor,
           "' must be of whole numbers from 0, has ", dim.dump());
    dims.push_back(static_cast<std::int64_t>(*n));
  }
  return dims;
}

SafeBytes data_of(const WeightTensor& tensor, const Json& json,
                  SafeBytes data) {
  const bool pair = json.is_array() && json.size() == 2;
  const auto from = pair ? count_in(json[0], 0, data.size()) : std::nullopt;
  const std::uint64_t begin = from.value_or(0);
  const auto to = pair ? count_in(json[1], begin, data.size()) : std::nullopt;
  ensure(from.has_value() && to.has_value(), "the data_offsets of '",
         tensor.name, "' must be [begin, end] within ", data.size(),
         " bytes, are ", json.dump());
  const std::uint64_t given = to.value_or(0) - begin;
  const auto n = elements_of(tensor.dims);
  const auto elements = static_cast<std::uint64_t>(n.value_or(0));
  std::uint64_t expected = 0;
  ensure(
      n.has_value() &&
          !__builtin_mul_overflow(elements, bytes_of(tensor.type), &expected),
      "the shape of '", tensor.name, "' is too large: ", text_of(tensor.dims));
  ensure(given == expected, "tensor '", tensor.name, "' (",
         name_of(tensor.type), ", ", text_of(tensor.dims), ") must have ",
         expected, " bytes, has ", given);
  return data.subspan(begin, given);
}

WeightTensor tensor_from(const std::string& name, const Json& json,
                         SafeBytes data) {
  ensure(json.is_object(), "tensor '", name, "' must be an object, is ",
         json.type_name());
  WeightTensor tensor;
  tensor.name = name;
  tensor.type = type_of(name, field(name, json, "dtype"));
  tensor.dims = dims_from(name, field(name, json, "shape"));
  tensor.bytes = data_of(tensor, field(name, json, "data_offsets"), data);
  return tensor;
}

// Without this one tensor could be the inside of another, and bytes could hide
// between them.
void check_cover(const std::vector<WeightTensor>& tensors, SafeBytes data) {
  std::vector<const WeightTensor*> order;
  for (const WeightTensor& tensor : tensors) order.push_back(&tensor);
  const auto begin = [&](const WeightTensor* t) {
    return static_cast<std::size_t>(t->bytes.data() - data.data());
  };
  std::sort(order.begin(), order.end(), [&](auto* a, auto* b) {
    return std::pair(begin(a), a->bytes.size()) <
           std::pair(begin(b), b->bytes.size());
  });
  std::size_t end = 0;
  for (const WeightTensor* tensor : order) {
    ensure(begin(tensor) >= end, "tensor '", tensor->name,
           "' must begin behind the one before it, at ", end, ", begins at ",
           begin(tensor));
    ensure(begin(tensor) == end, "tensor '", tensor->name, "' must begin at ",
           end, ", where the one before it ends, begins at ", begin(tensor));
    end += tensor->bytes.size();
  }
  ensure(end == data.size(), "the tensors must fill the file, they end at ",
         end, " of ", data.size(), " bytes");
}

}  // namespace

Weights read_safetensors(const std::string& path) {
  Weights weights;
  weights.path = path;
  weights.format = "safetensors";
  const auto file = std::make_shared<MappedFile>(path);
  weights.owners.push_back(file);
  try {
    const std::string_view header = header_of(file->bytes());
    const SafeBytes data = file->bytes().subspan(8 + header.size());
    const Json index = parsed(header);
    for (const auto& [name, json] : index.items()) {
      if (name == kMetadata) {
        read_metadata(json, weights);
      } else {
        weights.tensors.push_back(tensor_from(name, json, data));
      }
    }
    check_cover(weights.tensors, data);
  } catch (const std::exception& e) {
    ensure(false, "[weights] '", path,
           "' must be a file of safetensors, but: ", e.what(),
           "; download or save it anew");
  }
  sort_by_name(weights);
  return weights;
}

namespace {

// Larger elements first: so every tensor is aligned without holes.
std::vector<const WeightTensor*> in_file_order(
    std::span<const WeightTensor> tensors) {
  std::vector<const WeightTensor*> order;
  std::set<std::string_view> names = {kMetadata};
  for (const WeightTensor& tensor : tensors) {
    require(names.insert(tensor.name).second, "[write_safetensors] name '",
            tensor.name, "' must be there once and not be __metadata__");
    const auto n = elements_of(tensor.dims);
    require(n.has_value() &&
                tensor.bytes.size() / bytes_of(tensor.type) ==
                    static_cast<std::size_t>(*n) &&
                tensor.bytes.size() % bytes_of(tensor.type) == 0,
            "[write_safetensors] tensor '", tensor.name, "' (",
            name_of(tensor.type), ", ", text_of(tensor.dims),
            ") must have bytes as its shape says, has ", tensor.bytes.size());
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    const std::size_t x = bytes_of(a->type), y = bytes_of(b->type);
    return x != y ? x > y : a->name < b->name;
  });
  return order;
}

std::string header_for(const std::vector<const WeightTensor*>& order,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::size_t offset = 0;
  for (const WeightTensor* tensor : order) {
    header[tensor->name] = {
        {"dtype", name_of(tensor->type)},
        {"shape", tensor->dims},
        {"data_offsets", {offset, offset + tensor->bytes.size()}}};
    offset += tensor->bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    require(false, "[write_safetensors] names and metadata must be UTF-8");
  }
  const std::size_t end = 8 + text.size();
  text.resize((end + kHeaderAlign - 1) / kHeaderAlign * kHeaderAlign - 8, ' ');
  require(text.size() <= kMostSafetensorsHeader,
          "[write_safetensors] names and metadata must take at most ",
          kMostSafetensorsHeader, " bytes, take ", text.size());
  return text;
}

}  // namespace

void write_safetensors(const std::string& path,
                       std::span<const WeightTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto order = in_file_order(tensors);
  const std::string header = header_for(order, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const WeightTensor* tensor : order) file.write(tensor->bytes);
  file.commit();
}

}  // namespace sluice
