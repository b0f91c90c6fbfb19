#include "sluice/torch/train/model_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sluice/core/ensure.h"
#include "sluice/run/checkpoint.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// What a broken image does may change: it is how one gets on after one.
Spec without_policy(const std::string& dataset) {
  Spec spec = parse_spec(dataset);
  std::erase_if(spec.params,
                [](const auto& param) { return param.first == "broken"; });
  return spec;
}

// A checkpoint comes from anyone, and loops and memory follow from these.
std::uint64_t count_of(const Json& header, const std::string& path,
                       const char* key, std::uint64_t least,
                       std::uint64_t most) {
  const Json& value = header.at(key);
  const bool fits = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() >= least &&
                    value.get<std::uint64_t>() <= most;
  ensure(fits, "[resume] '", path, "' must have '", key, "' from ", least,
         " to ", most, ", has ", value.dump());
  return value.get<std::uint64_t>();
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

std::string model_file_path(const std::string& folder) {
  return folder + "/model.ckpt";
}

std::uint64_t write_model_file(const std::string& path, const ModelFile& file) {
  const Json header = {{"format", kFormat},
                       {"run", file.run},
                       {"step", file.progress.done},
                       {"place", file.progress.place},
                       {"steps_per_epoch", file.progress.steps_per_epoch},
                       {"ranks", file.ranks},
                       {"threads", file.threads},
                       {"config", Json::parse(to_json(file.config))},
                       {"plan", Json::parse(file.plan)},
                       {"schedule", file.schedule},
                       {"best_accuracy", file.best_accuracy},
                       {"data", file.data}};
  TensorStore store;
  store.add("parameter/", file.parameters);
  store.add("buffer/", file.buffers);
  store.add("optimizer/", file.optimizer);
  return Checkpoint::write(path, header.dump(), store.stored());
}

ModelFile read_model_file(const std::string& path, const Manifest& manifest) {
  const Checkpoint stored = Checkpoint::read(path);
  manifest.check(path, stored);
  ModelFile file;
  file.run = origin_of(stored).run;
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
    file.progress.done = count("step", 0, kMany);
    file.progress.place = count("place", 0, kMany);
    file.progress.steps_per_epoch = count("steps_per_epoch", 1, kMany);
    file.ranks = count("ranks", 1, 1'000'000);
    file.threads = count("threads", 1, 1024);
    change_by_json(file.config, path, header.at("config").dump());
    file.plan = header.at("plan").dump();
    file.schedule = header.at("schedule").get<std::vector<double>>();
    // Null before the first evaluation.
    const Json best = header.value("best_accuracy", Json());
    if (best.is_number()) file.best_accuracy = best;
    file.data = header.value("data", std::uint64_t{0});
  } catch (const Json::exception& e) {
    ensure(false, "[resume] '", path,
           "' is not the checkpoint of a training run: ", e.what());
  }
  file.parameters = tensors_of(stored, "parameter/");
  file.buffers = tensors_of(stored, "buffer/");
  file.optimizer = tensors_of(stored, "optimizer/");
  return file;
}

void check_compatible(const ModelFile& file, const TrainConfig& config) {
  const auto same = [](std::string_view what, const auto& saved,
                       const auto& given) {
    require(saved == given, "[resume] --", what,
            " must be that of the checkpoint, '", saved, "', got '", given,
            "'; start a new run for another one");
  };
  same("model", file.config.model, config.model);
  const Spec saved = without_policy(file.config.dataset);
  const Spec given = without_policy(config.dataset);
  if (saved.name != given.name || saved.params != given.params) {
    same("dataset", file.config.dataset, config.dataset);
  }
  same("optimizer", file.config.optimizer, config.optimizer);
  same("feedback", file.config.feedback, config.feedback);
  same("seed", file.config.seed, config.seed);
}

}  // namespace sluice
