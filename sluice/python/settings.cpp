#include "sluice/python/settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sluice/core/error.h"
#include "sluice/run/planning.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPlan = "plan_json";
constexpr const char* kSteps = "steps_per_epoch";
constexpr const char* kFollow = "follow";

Json to_json(const std::vector<TensorInfo>& tensors) {
  Json rows = Json::array();
  for (const TensorInfo& t : tensors) rows.push_back({t.name, t.dims});
  return rows;
}

// What one rank has, for the first to compare.
std::string brief(const SyncSettings& settings,
                  const std::vector<TensorInfo>& tensors,
                  const std::string& problem) {
  const Json json = {
      {"config", to_json(settings.config)}, {"plan", settings.plan},
      {"steps", settings.steps_per_epoch},  {"follow", settings.follow},
      {"tensors", to_json(tensors)},        {"problem", problem}};
  return json.dump();
}

// In which setting two ranks differ; empty if in none.
std::string difference(const Json& a, const Json& b) {
  TrainConfig left;
  TrainConfig right;
  change_by_json(left, "attach", a["config"].get<std::string>());
  change_by_json(right, "attach", b["config"].get<std::string>());
  const std::string setting = difference(left, right);
  if (!setting.empty()) return setting;
  if (a["plan"] != b["plan"]) return "plan";
  if (a["steps"] != b["steps"]) {
    return concat(kSteps, ": ", a["steps"].dump(), ", ", b["steps"].dump());
  }
  if (a["follow"] != b["follow"]) {
    return "whether gradients come by DistributedDataParallel";
  }
  const Json& mine = a["tensors"];
  const Json& theirs = b["tensors"];
  if (mine.size() != theirs.size()) {
    return concat("parameters: ", mine.size(), ", ", theirs.size());
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;
    return concat("parameter ", i, ": ", mine[i].dump(), ", ",
                  theirs[i].dump());
  }
  return {};
}

std::string verdict_on(const std::vector<Bytes>& all) {
  const Json first = Json::parse(to_string(all[0]));
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Json one = Json::parse(to_string(all[r]));
    if (one["problem"] != "") return one["problem"];
    const std::string other = difference(first, one);
    if (other.empty()) continue;
    return concat(
        "[attach] all ranks must attach with the same settings, but "
        "rank ",
        r, " differs from rank 0 in ", other);
  }
  return {};
}

// A name that matches nothing may be that of a module.
std::vector<std::string> patterns_in(const std::string& text,
                                     const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> patterns;
  std::istringstream in(text);
  for (std::string pattern; std::getline(in, pattern, ',');) {
    const auto fits = [&](const std::string& p) {
      return std::ranges::any_of(
          tensors, [&](const TensorInfo& t) { return matches(p, t.name); });
    };
    const std::string inside = pattern + ".*";
    patterns.push_back(!fits(pattern) && fits(inside) ? inside : pattern);
  }
  return patterns;
}

std::vector<Treatment> treatments_of(const TrainConfig& config,
                                     const std::vector<TensorInfo>& tensors) {
  Exceptions exceptions;
  exceptions.dense = patterns_in(config.dense, tensors);
  exceptions.no_feedback = patterns_in(config.no_feedback, tensors);
  exceptions.dense_below = static_cast<std::size_t>(config.dense_below);
  exceptions.dense_rank = static_cast<std::size_t>(config.dense_rank);
  return exceptions.resolve(tensors);
}

}  // namespace

SyncSettings SyncSettings::from_json(const std::string& text) {
  Json json = Json::parse(text);
  SyncSettings settings;
  settings.plan = json.value(kPlan, "");
  settings.steps_per_epoch = json.value(kSteps, std::uint64_t{0});
  settings.follow = json.value(kFollow, false);
  json.erase(kPlan);
  json.erase(kSteps);
  json.erase(kFollow);
  change_by_json(settings.config, "attach", json.dump());
  check_config(settings.config);
  require(
      settings.config.timeout > 0,
      "[attach] 'timeout' must be above 0 seconds, got 0; 60 is the default");
  require(
      settings.config.density_schedule.empty() || settings.steps_per_epoch > 0,
      "[attach] 'warmup' counts epochs, so 'steps_per_epoch' must be at "
      "least 1, got 0; len(loader) is that for most");
  return settings;
}

void compare_settings(Communicator& comm, const SyncSettings& settings,
                      const std::vector<TensorInfo>& tensors,
                      const std::string& problem) {
  const auto all = gather_at_first(comm, "attach", Communicator::kBetweenSteps,
                                   to_bytes(brief(settings, tensors, problem)));
  agree(comm, "attach", Communicator::kBetweenSteps,
        all.empty() ? "" : verdict_on(all));
}

SyncOptions sync_options(const SyncSettings& settings,
                         const std::vector<TensorInfo>& tensors,
                         const Communicator& comm, const Backend& backend) {
  const TrainConfig& config = settings.config;
  SyncOptions how;
  how.treatments = treatments_of(config, tensors);
  std::vector<std::string> names;
  for (const TensorInfo& t : tensors) names.push_back(t.name);
  const PlanSite site = plan_site(config, comm, backend, 1,
                                  static_cast<std::size_t>(config.threads));
  std::string forecast;
  how.plan = settings.plan.empty()
                 ? first_decisions(config, {tensors, how.treatments, names},
                                   site, forecast)[0]
                       .plan
                 : decisions_from_json(settings.plan, names)[0].plan;
  how.seed = static_cast<std::uint64_t>(config.seed);
  how.first_step = 1;
  how.nonfinite =
      config.nonfinite == "stop" ? NonFinite::kStop : NonFinite::kSkip;
  if (config.network != "measured") how.network = site.network.between;
  return how;
}

}  // namespace sluice
