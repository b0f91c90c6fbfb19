#include "sluice/python/settings.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/core/plain_none.h"
#include "sluice/run/planning.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPlan = "plan_json";
constexpr const char* kSteps = "steps_per_epoch";
constexpr const char* kTotal = "total_steps";
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
  const Json json = {{"config", to_json(settings.config)},
                     {"plan", settings.plan},
                     {"steps", settings.steps_per_epoch},
                     {"follow", settings.follow},
                     {"total", settings.total_steps},
                     {"tensors", to_json(tensors)},
                     {"problem", problem}};
  return json.dump();
}

// A setting of the configuration as attach() has it.
std::string as_python_has_it(std::string_view setting) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
      kNames = {{{"density_schedule", "warmup"},
                 {"dense", "exceptions"},
                 {"no_feedback", "exceptions"},
                 {"device", "the device of the parameters"}}};
  const auto at = std::ranges::find(
      kNames, setting, &std::pair<std::string_view, std::string_view>::first);
  return std::string(at == kNames.end() ? setting : at->second);
}

// In which setting two ranks differ; empty if in none.
std::string difference(const Json& a, const Json& b) {
  TrainConfig left;
  TrainConfig right;
  change_by_json(left, "attach", a["config"].get<std::string>());
  change_by_json(right, "attach", b["config"].get<std::string>());
  const std::string setting = difference(left, right);
  if (!setting.empty()) {
    const std::size_t colon = setting.find(':');
    return as_python_has_it(setting.substr(0, colon)) + setting.substr(colon);
  }
  if (a["plan"] != b["plan"]) return "plan";
  if (a["steps"] != b["steps"]) {
    return concat(kSteps, ": ", a["steps"].dump(), ", ", b["steps"].dump());
  }
  if (a["total"] != b["total"]) {
    return concat(kTotal, ": ", a["total"].dump(), ", ", b["total"].dump());
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

std::uint64_t count_of(const Json& json, const char* key) {
  const Json value = json.value(key, Json(0));
  require(value.is_number_integer() && value >= 0, "[attach] '", key,
          "' must be a whole number of steps, 0 or more, got ", value.dump());
  return value.get<std::uint64_t>();
}

// What a file says, in place of its name: so ranks compare what they go by.
void read_plan_file(SyncSettings& settings) {
  std::string& plan = settings.config.plan;
  if (!plan.ends_with(".json")) return;
  const std::string problem = why_no_file(plan);
  require(problem.empty(), "[attach] the plan '", plan,
          "' must be a file that can be read: ", problem);
  const std::string text = read_text_file("attach", plan);
  check_json("attach: the plan '" + plan + "'", text);
  settings.plan = Json::parse(text).dump();
  plan = TrainConfig().plan;
}

}  // namespace

SyncSettings SyncSettings::from_json(const std::string& text) {
  check_json("attach", text);
  Json json = Json::parse(text);
  SyncSettings settings;
  settings.plan = json.value(kPlan, "");
  settings.steps_per_epoch = count_of(json, kSteps);
  settings.total_steps = count_of(json, kTotal);
  settings.follow = json.value(kFollow, false);
  for (const char* key : {kPlan, kSteps, kTotal, kFollow}) json.erase(key);
  change_by_json(settings.config, "attach", json.dump());
  settings.config.sparsifier = plain_none(settings.config.sparsifier);
  read_plan_file(settings);
  require(settings.config.device != "cpu" || settings.config.gpu_link != "nccl",
          "[attach] gpu_link=\"nccl\" needs parameters on a GPU, got them on "
          "the CPU");
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
  how.total_steps = settings.total_steps;
  how.first_step = 1;
  how.nonfinite =
      config.nonfinite == "stop" ? NonFinite::kStop : NonFinite::kSkip;
  if (config.network != "measured") how.network = site.network.between;
  return how;
}

}  // namespace sluice
