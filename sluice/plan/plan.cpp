#include "sluice/plan/plan.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/nearest_name.h"
#include "sluice/core/number_text.h"
#include "sluice/core/plain_none.h"
#include "sluice/plan/json_fields.h"
#include "sluice/plan/plan_json.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPieces = 4096;
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

// The numbers of a model's tensors, by name.
class TensorNumbers {
 public:
  explicit TensorNumbers(std::span<const std::string> names) {
    for (const std::string& name : names) {
      numbers_.emplace(name, known_.size());
      known_.push_back(name);
    }
  }

  std::size_t of(const std::string& name, std::size_t bucket) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    throw std::invalid_argument(concat(
        "[plan] tensors must be of the model, but bucket ", bucket, " has '",
        name, "'; did you mean '", nearest_name(known_, name), "'?"));
  }

 private:
  std::vector<std::string_view> known_;
  std::unordered_map<std::string_view, std::size_t> numbers_;
};

Piece piece_from(const Json& json, std::size_t bucket) {
  require(json.is_array() && json.size() == 2 && json[0].is_number_unsigned() &&
              json[1].is_number_unsigned() && json[0] < json[1] &&
              json[1] <= kMostPieces,
          "[plan] a piece must be [INDEX, COUNT] with an index below the "
          "count, which is at most ",
          kMostPieces, ", but bucket ", bucket, " has ", json.dump());
  return {json[0], json[1]};
}

BucketPlan bucket_from(const Json& json, std::size_t bucket,
                       const TensorNumbers& numbers) {
  const FieldsOf fields{"plan", concat("bucket ", bucket), json};
  fields.check({"tensors", "piece", "sparsifier", "turns", "feedback",
                "collective", "values", "density", "device"});
  BucketPlan b;
  for (const Json& name : json.at("tensors")) {
    b.tensors.push_back(numbers.of(name, bucket));
  }
  b.sparsifier = plain_none(json.at("sparsifier").get<std::string>());
  b.feedback = json.at("feedback");
  b.collective = json.at("collective");
  b.values = json.at("values");
  if (json.contains("density")) b.density = json.at("density").get<double>();
  if (json.contains("piece")) b.piece = piece_from(json.at("piece"), bucket);
  for (const Json& rule : json.value("turns", Json::array())) {
    b.turns.push_back(rule);
  }
  b.device = json.value("device", "");
  return b;
}

// What a bucket says of itself, whatever its tensors are.
void check_bucket(const BucketPlan& b, std::size_t i) {
  require(!b.tensors.empty(), "[plan] a bucket must have a tensor, but bucket ",
          i, " has none; leave it out");
  const double density = b.density.value_or(1);
  require(density > 0 && density <= 1,
          "[plan] a density must be above 0 and at most 1, but bucket ", i,
          " has ", shortest(density),
          "; without one it follows the density of the job");
  require(b.device.empty() || b.device == "cpu",
          "[plan] a device must be cpu, or missing where gradients are "
          "selected where they are made, but bucket ",
          i, " has '", b.device, "'");
  require(!b.dense() || (b.device.empty() && b.turns.empty()),
          "[plan] a dense bucket is not selected, but bucket ", i,
          " has turns or a device for that; take them out");
  for (const std::string& rule : b.turns) {
    require(rule != "none",
            "[plan] turns must be of sparsifiers that select, "
            "but bucket ",
            i, " has none among them");
  }
}

// Which parts of the tensors are in some bucket.
class Coverage {
 public:
  explicit Coverage(std::span<const std::string> names)
      : names_(names), seen_(names.size()) {}

  void add(std::size_t t, const Piece& piece, std::size_t bucket) {
    require(t < names_.size(), "[plan] tensors must be of the model, which ",
            "has ", names_.size(), ", but bucket ", bucket, " has number ", t);
    std::vector<bool>& seen = seen_[t];
    if (seen.empty()) seen.resize(piece.count);
    require(seen.size() == piece.count, "[plan] all pieces of '", names_[t],
            "' must be of as many, but bucket ", bucket, " has one of ",
            piece.count, " and another has one of ", seen.size());
    require(!seen[piece.index], "[plan] must have each tensor once, but has ",
            piece.whole() ? "" : concat("piece ", piece.index, " of "), "'",
            names_[t], "' twice; take it out of one bucket");
    seen[piece.index] = true;
  }

  void check() const {
    for (std::size_t t = 0; t < names_.size(); ++t) {
      const auto missing = std::find(seen_[t].begin(), seen_[t].end(), false);
      require(!seen_[t].empty() && missing == seen_[t].end(),
              "[plan] must have each tensor of the model once, but lacks ",
              seen_[t].empty()
                  ? ""
                  : concat("piece ", missing - seen_[t].begin(), " of "),
              "'", names_[t], "'; put it into a bucket");
    }
  }

 private:
  std::span<const std::string> names_;
  std::vector<std::vector<bool>> seen_;  // by tensor, by piece
};

}  // namespace

void check_plan(const Plan& plan, std::span<const std::string> names) {
  Coverage coverage(names);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const BucketPlan& b = plan.buckets[i];
    check_bucket(b, i);
    require(!plan.hierarchical || b.device.empty(),
            "[plan] machines select where their gradients are, but bucket ", i,
            " of a hierarchical plan has a device; take it out");
    for (const std::size_t t : b.tensors) coverage.add(t, b.piece, i);
  }
  coverage.check();
}

double bucket_density(const BucketPlan& bucket, const Densities& schedule) {
  if (!bucket.density) return schedule.now;
  return std::min(1.0, *bucket.density * (schedule.now / schedule.end));
}

void check_plan_version(const Json& file) {
  if (!file.is_object()) return;  // which is found out soon enough
  const Json& version = file.at("version");
  if (version == kPlanVersion) return;
  throw std::invalid_argument(
      concat("[plan] version must be ", kPlanVersion, ", got ", version.dump(),
             version == 1 ? "; version 1 had numbers for tensors: put their "
                            "names there, as in plan.json of a new run"
                          : ""));
}

void read_plan_json(std::string_view text,
                    const std::function<void(const Json&)>& read) {
  check_json("plan", text);
  try {
    read(Json::parse(text));
  } catch (const Json::exception& e) {
    throw std::invalid_argument(
        concat("[plan] expected the JSON of a plan, as in plan.json of a run "
               "folder: ",
               json_problem(e.what())));
  }
}

Json plan_to_json(const Plan& plan, std::span<const std::string> names) {
  Json json = {{"name", plan.name}};
  if (plan.hierarchical) json["hierarchical"] = true;
  json["buckets"] = Json::array();
  for (const BucketPlan& b : plan.buckets) {
    Json bucket = {{"tensors", Json::array()},
                   {"sparsifier", b.sparsifier},
                   {"feedback", b.feedback},
                   {"collective", b.collective},
                   {"values", b.values}};
    for (const std::size_t t : b.tensors) bucket["tensors"].push_back(names[t]);
    if (b.density) bucket["density"] = *b.density;
    if (!b.piece.whole()) bucket["piece"] = {b.piece.index, b.piece.count};
    if (!b.turns.empty()) bucket["turns"] = b.turns;
    if (!b.device.empty()) bucket["device"] = b.device;
    json["buckets"].push_back(std::move(bucket));
  }
  return json;
}

Plan plan_of_json(const Json& json, const std::string& what,
                  std::span<const std::string> names,
                  const std::vector<std::string_view>& more) {
  const FieldsOf fields{"plan", what, json};
  std::vector<std::string_view> known = {"name", "hierarchical", "buckets"};
  known.insert(known.end(), more.begin(), more.end());
  fields.check(known);
  Plan plan;
  plan.name = json.at("name");
  plan.hierarchical = json.value("hierarchical", false);
  const TensorNumbers numbers(names);
  for (const Json& b : json.at("buckets")) {
    plan.buckets.push_back(bucket_from(b, plan.buckets.size(), numbers));
  }
  check_plan(plan, names);
  return plan;
}

std::string to_json(const Plan& plan, std::span<const std::string> names) {
  Json json = {{"version", kPlanVersion}};
  json.update(plan_to_json(plan, names));
  return json.dump(2) + "\n";
}

Plan plan_from_json(std::string_view text, std::span<const std::string> names) {
  Plan plan;
  read_plan_json(text, [&](const Json& json) {
    check_plan_version(json);
    plan = plan_of_json(json, "a plan", names, {"version"});
  });
  return plan;
}

std::vector<std::string> plan_tensors(std::string_view text) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  read_plan_json(text, [&](const Json& json) {
    for (const Json& b : json.at("buckets")) {
      for (const Json& name : b.at("tensors")) {
        // Once, however many pieces it has.
        if (seen.insert(name).second) names.push_back(name);
      }
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
    if (b.piece.whole()) continue;
    labels.back() += concat(" ", b.piece.index + 1, "/", b.piece.count);
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
  dense.turns.clear();
  dense.device.clear();
  plan.buckets = group(input, false, input.sparse, limit);
  // What is dense only because it is small travels in one.
  const bool all_dense = input.sparse.sparsifier == "none";
  for (BucketPlan& b : group(input, true, dense, all_dense ? limit : kAll)) {
    plan.buckets.push_back(std::move(b));
  }
  return plan;
}

}  // namespace sluice
