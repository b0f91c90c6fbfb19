#include "sluice/run/run_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/core/json_check.h"
#include "sluice/run/json_count.h"
#include "sluice/run/manifest.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// A checkpoint comes from anyone, and loops and memory follow from these.
std::uint64_t count_of(const Json& header, const std::string& path,
                       const char* key, std::uint64_t least,
                       std::uint64_t most) {
  const Json& value = header.at(key);
  const auto number = count_in(value, least, most);
  ensure(number.has_value(), "[resume] '", path, "' must have '", key,
         "' from ", least, " to ", most, ", has ", value.dump());
  return *number;
}

}  // namespace

Progress Progress::in(std::uint64_t steps_of_epoch) const {
  Progress other = *this;
  other.steps_per_epoch = steps_of_epoch;
  if (steps_of_epoch != steps_per_epoch) {
    other.place = static_cast<std::uint64_t>(
        std::llround(epochs() * static_cast<double>(steps_of_epoch)));
  }
  return other;
}

std::string to_json(const RunState& state) {
  const Json header = {{"format", kFormat},
                       {"run", state.run},
                       {"step", state.progress.done},
                       {"place", state.progress.place},
                       {"steps_per_epoch", state.progress.steps_per_epoch},
                       {"ranks", state.ranks},
                       {"threads", state.threads},
                       {"gpu_link", state.gpu_link},
                       {"config", Json::parse(to_json(state.config))},
                       {"plan", Json::parse(state.plan)},
                       {"schedule", state.schedule},
                       {"best_score", state.best_score},
                       {"data", state.data}};
  return header.dump();
}

RunState run_state_of(const Checkpoint& stored, const std::string& path) {
  RunState state;
  state.run = origin_of(stored).run;
  try {
    const Json header = Json::parse(stored.header());
    ensure(header.at("format") == kFormat, "[resume] '", path,
           "' must be of format ", kFormat, ", got ",
           header.at("format").dump());
    constexpr std::uint64_t kMany = 1'000'000'000'000'000;
    const auto count = [&](const char* key, std::uint64_t least,
                           std::uint64_t most) {
      return count_of(header, path, key, least, most);
    };
    state.progress.done = count("step", 0, kMany);
    state.progress.place = count("place", 0, kMany);
    state.progress.steps_per_epoch = count("steps_per_epoch", 1, kMany);
    state.ranks = count("ranks", 1, 1'000'000);
    state.threads = count("threads", 1, 1024);
    state.gpu_link = header.value("gpu_link", "");
    ensure(state.gpu_link.empty() || state.gpu_link == "nccl" ||
               state.gpu_link == "mpi",
           "[resume] '", path,
           "' must have 'gpu_link' nccl, mpi or none, has '", state.gpu_link,
           "'");
    change_by_json(state.config, path, header.at("config").dump());
    state.plan = header.at("plan").dump();
    state.schedule = header.at("schedule").get<std::vector<double>>();
    // Null before the first evaluation; runs of images had another name for it.
    const Json before = header.value("best_accuracy", Json());
    const Json best = header.value("best_score", before);
    if (best.is_number()) state.best_score = best;
    if (header.contains("data")) state.data = count("data", 0, ~0ULL);
  } catch (const Json::exception& e) {
    ensure(
        false, "[resume] '", path,
        "' is not the checkpoint of a training run: ", json_problem(e.what()));
  }
  return state;
}

}  // namespace sluice
