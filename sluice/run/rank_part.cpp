#include "sluice/run/rank_part.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint.h"
#include "sluice/run/json_count.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

template <class T>
std::vector<T> joined(const std::vector<std::vector<T>>& parts) {
  std::vector<T> all;
  for (const auto& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <class T>
Json sizes_of(const std::vector<std::vector<T>>& parts) {
  Json sizes = Json::array();
  for (const auto& part : parts) sizes.push_back(part.size());
  return sizes;
}

template <class T>
StoredTensor stored(const char* name, const char* dtype,
                    const std::vector<T>& values) {
  return {name,
          dtype,
          {static_cast<std::int64_t>(values.size())},
          std::as_bytes(std::span(values))};
}

// A checkpoint comes from anyone: it may call anything by this name.
template <class T>
std::vector<T> values_of(const Checkpoint& file, const char* name,
                         const char* dtype) {
  const StoredTensor& tensor = file.at(name);
  require(tensor.dtype == dtype, "'", name, "' must be ", dtype, ", is ",
          tensor.dtype);
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  }
  return values;
}

template <class T>
std::vector<std::vector<T>> split(const std::vector<T>& all, const Json& sizes,
                                  const std::string& path) {
  std::vector<std::vector<T>> parts;
  auto from = all.begin();
  for (const Json& json : sizes) {
    const auto left = static_cast<std::uint64_t>(all.end() - from);
    const auto size = count_in(json, 0, left);
    ensure(size.has_value(), "[resume] '", path, "' has less than it says");
    const auto end = from + static_cast<std::ptrdiff_t>(*size);
    parts.emplace_back(from, end);
    from = end;
  }
  return parts;
}

std::string carried_name(std::size_t i) { return concat("carried/", i); }

// Files of before have none.
std::vector<CarriedTensor> carried_of(const Checkpoint& file,
                                      std::size_t count) {
  std::vector<CarriedTensor> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = carried_name(i);
    all.push_back(
        {file.at(name).dims, values_of<float>(file, name.c_str(), "float32")});
  }
  return all;
}

void add(std::vector<double>& sum, const std::vector<float>& values,
         double factor) {
  if (sum.empty()) sum.resize(values.size());
  ensure(sum.size() == values.size(),
         "[resume] parts of a checkpoint must be of one model, got ",
         sum.size(), " and ", values.size(), " elements");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += factor * static_cast<double>(values[i]);
  }
}

std::vector<float> rounded(const std::vector<double>& values) {
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(values[i]);
  }
  return out;
}

}  // namespace

std::string rank_part_path(const std::string& folder, std::size_t rank) {
  return concat(folder, "/rank-", rank, ".ckpt");
}

std::uint64_t write_rank_part(const std::string& path, const RankState& state,
                              const Origin& origin) {
  const std::vector<std::byte> rules = joined(state.rules);
  const std::vector<double> collectives = joined(state.collectives);
  const Json header = {{"run", origin.run},
                       {"step", origin.step},
                       {"rank", origin.rank},
                       {"ranks", origin.ranks},
                       {"rules", sizes_of(state.rules)},
                       {"collectives", sizes_of(state.collectives)},
                       {"carried", state.carried.size()}};
  std::vector<StoredTensor> tensors = {
      stored("residual", "float32", state.residual),
      stored("momentum", "float32", state.momentum),
      stored("rules", "uint8", rules),
      stored("collectives", "float64", collectives)};
  for (std::size_t i = 0; i < state.carried.size(); ++i) {
    const CarriedTensor& c = state.carried[i];
    tensors.push_back({carried_name(i), "float32", c.dims,
                       std::as_bytes(std::span(c.values))});
  }
  return Checkpoint::write(path, header.dump(), tensors);
}

RankState read_rank_part(const std::string& path, const Manifest& manifest,
                         std::size_t rank) {
  const Checkpoint file = Checkpoint::read(path);
  manifest.check(path, file, rank);
  const Json header = Json::parse(file.header());
  RankState state;
  try {
    state.residual = values_of<float>(file, "residual", "float32");
    state.momentum = values_of<float>(file, "momentum", "float32");
    state.rules = split(values_of<std::byte>(file, "rules", "uint8"),
                        header.at("rules"), path);
    state.collectives = split(values_of<double>(file, "collectives", "float64"),
                              header.at("collectives"), path);
    const auto carried =
        count_in(header.value("carried", Json(0U)), 0, file.tensors().size());
    ensure(carried.has_value(), "[resume] '", path, "' has less than it says");
    state.carried = carried_of(file, *carried);
  } catch (const std::runtime_error&) {
    throw;
  } catch (const std::exception& e) {
    ensure(false, "[resume] '", path, "' is not of a rank: ", e.what());
  }
  return state;
}

std::vector<Inherited> inherit(std::size_t old_ranks, std::size_t rank,
                               std::size_t ranks) {
  const double scale =
      static_cast<double>(ranks) / static_cast<double>(old_ranks);
  std::vector<Inherited> parts;
  if (ranks <= old_ranks) {
    for (std::size_t old = rank; old < old_ranks; old += ranks) {
      parts.push_back({old, scale});
    }
    return parts;
  }
  const std::size_t old = rank % old_ranks;
  const std::size_t heirs = (ranks - old + old_ranks - 1) / old_ranks;
  parts.push_back({old, scale / static_cast<double>(heirs)});
  return parts;
}

RankState read_rank_parts(const std::string& folder, const Manifest& manifest,
                          std::size_t old_ranks, std::size_t rank,
                          std::size_t ranks) {
  const auto part_of = [&](std::size_t which) {
    return read_rank_part(rank_part_path(folder, which), manifest, which);
  };
  if (old_ranks == ranks) return part_of(rank);
  std::vector<double> residual;
  std::vector<double> momentum;
  const auto parts = inherit(old_ranks, rank, ranks);
  for (const Inherited& part : parts) {
    const auto old = part_of(part.rank);
    add(residual, old.residual, part.factor);
    add(momentum, old.momentum, 1 / static_cast<double>(parts.size()));
  }
  RankState state;
  state.residual = rounded(residual);
  state.momentum = rounded(momentum);
  return state;
}

}  // namespace sluice
