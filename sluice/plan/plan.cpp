#include "sluice/plan/plan.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/nearest_name.h"
#include "sluice/plan/json_fields.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;
constexpr std::string_view kSize = "size=";

// Neighbours in the order of backward: up to `limit` bytes a sparse bucket; a
// dense one is full once it holds as much, so that no small tensor, a bias say,
// costs a round of messages because its neighbour is large.
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
    if (buckets.empty() || (dense ? bytes >= limit : bytes + more > limit)) {
      buckets.push_back(like);
      bytes = 0;
    }
    buckets.back().tensors.push_back(i);
    bytes += more;
  }
  return buckets;
}

void check_version(const Json& version) {
  if (version == kVersion) return;
  throw std::invalid_argument(
      concat("[plan] version must be ", kVersion, ", got ", version.dump(),
             version == 1 ? "; version 1 had numbers for tensors: put their "
                            "names there, as in plan.json of a new run"
                          : ""));
}

std::size_t index_of(const std::string& name, std::size_t bucket,
                     std::span<const std::string> names) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw std::invalid_argument(concat(
      "[plan] tensors must be of the model, but bucket ", bucket, " has '",
      name, "'; did you mean '", nearest_name(known, name), "'?"));
}

BucketPlan bucket_from(const Json& json, std::size_t bucket,
                       std::span<const std::string> names) {
  const FieldsOf fields{"plan", concat("bucket ", bucket), json};
  fields.check(
      {"tensors", "sparsifier", "feedback", "collective", "values", "density"});
  BucketPlan b;
  for (const Json& name : json.at("tensors")) {
    b.tensors.push_back(index_of(name, bucket, names));
  }
  b.sparsifier = json.at("sparsifier");
  b.feedback = json.at("feedback");
  b.collective = json.at("collective");
  b.values = json.at("values");
  if (json.contains("density")) b.density = json.at("density").get<double>();
  return b;
}

// Calls `read` on the JSON of a text that anyone may have written.
template <class F>
void read_json(std::string_view text, F&& read) {
  check_json("plan", text);
  try {
    read(Json::parse(text));
  } catch (const Json::exception& e) {
    throw std::invalid_argument(
        concat("[plan] expected the JSON of a plan, as in plan.json of a run "
               "folder: ",
               e.what()));
  }
}

}  // namespace

void check_plan(const Plan& plan, std::span<const std::string> names) {
  std::vector<int> count(names.size(), 0);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const BucketPlan& b = plan.buckets[i];
    require(!b.tensors.empty(),
            "[plan] a bucket must have a tensor, but bucket ", i,
            " has none; leave it out");
    const double density = b.density.value_or(1);
    require(density > 0 && density <= 1,
            "[plan] a density must be above 0 and at most 1, but bucket ", i,
            " has ", density, "; without one it follows --density");
    for (const std::size_t t : b.tensors) {
      require(t < names.size(), "[plan] tensors must be of the model, which ",
              "has ", names.size(), ", but bucket ", i, " has number ", t);
      require(++count[t] == 1, "[plan] must have each tensor once, but has '",
              names[t], "' twice; take it out of one bucket");
    }
  }
  for (std::size_t t = 0; t < names.size(); ++t) {
    require(count[t] == 1, "[plan] must have each tensor of the model once, ",
            "but lacks '", names[t], "'; put it into a bucket");
  }
}

double bucket_density(const BucketPlan& bucket, const Densities& schedule) {
  if (!bucket.density) return schedule.now;
  return std::min(1.0, *bucket.density * (schedule.now / schedule.end));
}

std::string to_json(const Plan& plan, std::span<const std::string> names) {
  Json json = {{"version", kVersion}, {"name", plan.name}};
  json["buckets"] = Json::array();
  for (const BucketPlan& b : plan.buckets) {
    Json bucket = {{"tensors", Json::array()},
                   {"sparsifier", b.sparsifier},
                   {"feedback", b.feedback},
                   {"collective", b.collective},
                   {"values", b.values}};
    for (const std::size_t t : b.tensors) bucket["tensors"].push_back(names[t]);
    if (b.density) bucket["density"] = *b.density;
    json["buckets"].push_back(std::move(bucket));
  }
  return json.dump(2) + "\n";
}

Plan plan_from_json(std::string_view text, std::span<const std::string> names) {
  Plan plan;
  read_json(text, [&](const Json& json) {
    const FieldsOf fields{"plan", "a plan", json};
    fields.check({"version", "name", "buckets"});
    check_version(json.at("version"));
    plan.name = json.at("name");
    for (const Json& b : json.at("buckets")) {
      plan.buckets.push_back(bucket_from(b, plan.buckets.size(), names));
    }
  });
  check_plan(plan, names);
  return plan;
}

std::vector<std::string> plan_tensors(std::string_view text) {
  std::vector<std::string> names;
  read_json(text, [&](const Json& json) {
    for (const Json& b : json.at("buckets")) {
      for (const Json& name : b.at("tensors")) names.push_back(name);
    }
  });
  return names;
}

std::vector<std::string> bucket_labels(const Plan& plan,
                                       std::span<const std::string> names) {
  std::vector<std::string> labels;
  for (const BucketPlan& b : plan.buckets) {
    labels.push_back(names[b.tensors.front()]);
    const std::size_t more = b.tensors.size() - 1;
    if (more > 0) labels.back() += concat(" + ", more);
  }
  return labels;
}

std::int64_t parse_plan_bytes(std::string_view whole) {
  const std::string_view text = whole.substr(kSize.size());
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
  return static_cast<std::int64_t>(value * scale);
}

Plan make_plan(std::string_view text, const PlanInput& input) {
  constexpr auto kAll = ~std::size_t{0} / 2;
  const bool layerwise = text == "layerwise";
  require(layerwise || text == "single" || text.starts_with(kSize),
          "[make_plan] expected layerwise, single or size=BYTES, got '", text,
          "'");
  const std::size_t limit =
      layerwise          ? 0
      : text == "single" ? kAll
                         : static_cast<std::size_t>(parse_plan_bytes(text));
  Plan plan;
  plan.name = text;
  BucketPlan dense = input.sparse;
  dense.sparsifier = "none";
  dense.collective = input.dense_collective;
  dense.density.reset();
  plan.buckets = group(input, false, input.sparse, limit);
  // What is dense only because it is small travels in one.
  const bool all_dense = input.sparse.sparsifier == "none";
  for (BucketPlan& b : group(input, true, dense, all_dense ? limit : kAll)) {
    plan.buckets.push_back(std::move(b));
  }
  return plan;
}

}  // namespace sluice
