#include "sluice/plan/plan.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

std::size_t parse_bytes(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, text.data() + text.size() - rest);
  const double scale = unit.empty()  ? 1
                       : unit == "k" ? 1e3
                       : unit == "M" ? 1e6
                       : unit == "G" ? 1e9
                                     : 0;
  require(error == std::errc() && value * scale >= 1 && value * scale < 1e15,
          "[make_plan] expected size=BYTES as in size=64k or size=25M, got '",
          whole, "'");
  return static_cast<std::size_t>(value * scale);
}

// Neighbours in the order of backward, up to `limit` bytes a bucket.
std::vector<BucketPlan> group(const PlanInput& input, bool dense,
                              const BucketPlan& like, std::size_t limit) {
  std::vector<BucketPlan> buckets;
  std::size_t bytes = 0;
  for (std::size_t i = input.sizes.size(); i-- > 0;) {
    const bool is_dense =
        input.sparse.sparsifier == "none" ||
        (i < input.dense.size() && static_cast<bool>(input.dense[i]));
    if (is_dense != dense) continue;
    const std::size_t more = input.sizes[i] * sizeof(float);
    if (buckets.empty() || bytes + more > limit) {
      buckets.push_back(like);
      bytes = 0;
    }
    buckets.back().tensors.push_back(i);
    bytes += more;
  }
  return buckets;
}

BucketPlan bucket_from(const Json& json) {
  BucketPlan b;
  b.tensors = json.at("tensors").get<std::vector<std::size_t>>();
  b.sparsifier = json.at("sparsifier");
  b.feedback = json.at("feedback");
  b.collective = json.at("collective");
  b.density = json.at("density");
  b.values = json.at("values");
  return b;
}

void check_tensors(const Plan& plan, std::size_t tensors) {
  std::vector<int> seen(tensors, 0);
  for (const BucketPlan& b : plan.buckets) {
    for (const std::size_t t : b.tensors) {
      require(t < tensors && ++seen[t] == 1, "[plan] must have each of ",
              tensors, " tensors once, but has tensor ", t,
              t < tensors ? " twice" : "");
    }
  }
  for (std::size_t t = 0; t < tensors; ++t) {
    require(seen[t] == 1, "[plan] must have each of ", tensors,
            " tensors once, but lacks tensor ", t);
  }
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json json = {{"version", kVersion}, {"name", plan.name}};
  json["buckets"] = Json::array();
  for (const BucketPlan& b : plan.buckets) {
    json["buckets"].push_back({{"tensors", b.tensors},
                               {"sparsifier", b.sparsifier},
                               {"feedback", b.feedback},
                               {"collective", b.collective},
                               {"density", b.density},
                               {"values", b.values}});
  }
  return json.dump(2) + "\n";
}

Plan plan_from_json(std::string_view text, std::size_t tensors) {
  Plan plan;
  try {
    const Json json = Json::parse(text);
    require(json.at("version") == kVersion, "[plan] version must be ", kVersion,
            ", got ", json.at("version").dump());
    plan.name = json.at("name");
    for (const Json& b : json.at("buckets")) {
      plan.buckets.push_back(bucket_from(b));
    }
  } catch (const Json::exception& e) {
    throw std::invalid_argument(
        concat("[plan] expected the JSON of a plan, as in plan.json of a run "
               "folder: ",
               e.what()));
  }
  check_tensors(plan, tensors);
  return plan;
}

Plan make_plan(std::string_view text, const PlanInput& input) {
  constexpr std::string_view kSize = "size=";
  constexpr auto kAll = ~std::size_t{0} / 2;
  const bool layerwise = text == "layerwise";
  require(layerwise || text == "single" || text.starts_with(kSize),
          "[make_plan] expected layerwise, single or size=BYTES, got '", text,
          "'");
  const std::size_t limit = layerwise ? 0
                            : text == "single"
                                ? kAll
                                : parse_bytes(text.substr(kSize.size()), text);
  Plan plan;
  plan.name = text;
  BucketPlan dense = input.sparse;
  dense.sparsifier = "none";
  dense.collective = input.dense_collective;
  plan.buckets = group(input, false, input.sparse, limit);
  // What is dense only because it is small travels in one.
  const bool all_dense = input.sparse.sparsifier == "none";
  for (BucketPlan& b : group(input, true, dense, all_dense ? limit : kAll)) {
    plan.buckets.push_back(std::move(b));
  }
  return plan;
}

}  // namespace sluice
