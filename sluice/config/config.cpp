#include "sluice/config/config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sluice/core/error.h"
#include "sluice/core/json_check.h"
#include "sluice/core/nearest_name.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMany = 1e15;

std::string_view nearest(const ParamList& params, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Param& p : params) names.push_back(p.name);
  return nearest_name(names, name);
}

Json value_of(const Param& param) {
  return std::visit([](const auto* v) { return Json(*v); }, param.value);
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = end == text.data() + text.size();
  if (error != std::errc() || !all || value > 1'000'000'000'000) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

ParamList params_of(TrainConfig& c) {
  return {
      {"model", &c.model, "as in `sluice list models`, mlp:widths=512-512"},
      {"dataset", &c.dataset, "as in `sluice list datasets`"},
      {"data_dir", &c.data_dir, "folder of its files, if not the usual one"},
      {"init", &c.init,
       "weights to begin with: safetensors, a state_dict of torch.save, or a "
       "folder of Hugging Face"},
      {"batch_size", &c.batch_size, "samples per worker and pass", 1, 1e9},
      {"length", &c.length,
       "tokens of a sequence of text, per sample and pass; 0: the task's own",
       0, 1e6},
      {"accumulate", &c.accumulate, "passes whose mean is one step", 1, 1e6},
      {"epochs", &c.epochs, "passes over the data", 1, 1e9},
      {"max_steps", &c.max_steps, "stop after so many; 0: by epochs", 0, kMany},
      {"optimizer", &c.optimizer,
       "as in `sluice list optimizers`; auto: the model's (sgd for images), "
       "with momentum where everything is sent, else without"},
      {"lr", &c.lr,
       "learning rate; 0: the model's; for images 0.05 with a momentum of "
       "0.9, 0.5 without, 0.001 for Adam",
       0, 1e9},
      {"lr_schedule", &c.lr_schedule,
       "as in `sluice list lr-schedules`; auto: the model's, or with an "
       "optimizer of one's own a cosine"},
      {"clip", &c.clip,
       "norm of the mean gradient, at most; 0: any, or the model's with "
       "optimizer auto",
       0, 1e30},
      {"clip_local", &c.clip_local,
       "norm of a worker's gradient, at most; 0: any; no overlap with backward",
       0, 1e30},
      {.name = "clip_norm",
       .value = &c.clip_norm,
       .doc = "what both clip: the norm of all tensors together, or each "
              "tensor's own",
       .choices = {"global", "tensor"}},
      {.name = "precision",
       .value = &c.precision,
       .doc = "of forward and backward; bf16 is autocast",
       .choices = {"fp32", "bf16"}},
      {.name = "nonfinite",
       .value = &c.nonfinite,
       .doc = "what a step with a NaN or Inf comes to",
       .choices = {"skip", "stop"}},
      {"sparsifier", &c.sparsifier, "as in `sluice list`; none: dense"},
      {"density", &c.density, "share of the entries that is sent"},
      {"density_schedule", &c.density_schedule,
       "densities of the first epochs, as in warmup:epochs=4"},
      {"feedback", &c.feedback, "what is kept of what is not sent"},
      {.name = "values",
       .value = &c.values,
       .doc = "form of what is sent",
       .choices = {"fp32", "bf16", "fp16"}},
      {"collective", &c.collective, "how it is summed"},
      {"dense_collective", &c.dense_collective,
       "the same for tensors that stay dense: dense or dense-bf16"},
      {"network", &c.network,
       "what collective auto chooses by: nominal numbers, ALPHA,RATE as in "
       "50us,1Gbit, or measured at the start, which does not repeat"},
      {"plan", &c.plan,
       "what travels together: any of `sluice list planners`, size=25M, or a "
       "plan.json to repeat; those that go by costs, as auto, measure the "
       "first steps unless --costs has them"},
      {.name = "replan",
       .value = &c.replan,
       .doc = "whether a run plans anew when its steps have become longer or "
              "shorter",
       .choices = {"off", "drift"}},
      {"costs", &c.costs,
       "a profile.json of this model (--profile writes one), which planners "
       "go by"},
      {"machine_ranks", &c.machine_ranks,
       "ranks in a row that hierarchical plans take for one machine; 0: those "
       "that are on one",
       0, 1e6},
      {.name = "spare_cores",
       .value = &c.spare_cores,
       .doc = "whether workers have more cores than they compute on, which "
              "planners go by; auto: by those of the machine, which others may "
              "share",
       .choices = {"auto", "yes", "no"}},
      {"dense", &c.dense, "names of tensors to keep dense; *, ? and commas"},
      {"no_feedback", &c.no_feedback, "names of tensors without a residual"},
      {"dense_below", &c.dense_below, "keep smaller tensors dense", 0, kMany},
      {"dense_rank", &c.dense_rank, "keep those of so few dimensions dense", 0,
       100},
      {"seed", &c.seed, "of weights, order and augmentation", 0, kMany},
      {"device", &c.device,
       "where to compute: cpu, cuda, or cuda:1 for one GPU of several"},
      {.name = "tf32",
       .value = &c.tf32,
       .doc = "whether GPUs round what fp32 multiplies to 10 bits; auto: on",
       .choices = {"auto", "on", "off"}},
      {.name = "channels_last",
       .value = &c.channels_last,
       .doc = "order of images and weights in memory; auto: on for GPUs",
       .choices = {"auto", "on", "off"}},
      {.name = "deterministic",
       .value = &c.deterministic,
       .doc = "whether a GPU takes slower algorithms that repeat",
       .choices = {"off", "on"}},
      {.name = "gpu_link",
       .value = &c.gpu_link,
       .doc = "how GPUs exchange: nccl, or mpi through the host; auto: nccl "
              "where it can be, else mpi",
       .choices = {"auto", "nccl", "mpi"}},
      {"threads", &c.threads, "per worker; 0: cores shared evenly", 0, 1024},
      {"data_threads", &c.data_threads,
       "per worker, that make samples; 0: some for images, none for what is in "
       "memory",
       0, 1024},
      {"prefetch", &c.prefetch, "batches that they make ahead", 0, 1024},
      {"out", &c.out, "run folder; runs/MODEL-TIME unless given"},
      {"checkpoint_every", &c.checkpoint_every,
       "steps (100), epochs (1e) or seconds (30s); also at the end and at "
       "SIGTERM"},
      {"keep", &c.keep, "checkpoints to keep", 1, 1e6},
      {"write_timeout", &c.write_timeout,
       "seconds that a rank may be at a file while the others wait", 1, 1e6},
      {"eval_every", &c.eval_every, "steps (100) or epochs (1e); 0: never"},
      {"log_every", &c.log_every, "steps", 1, 1e9},
      {"replica_check", &c.replica_check,
       "steps after which weights are compared; 0: never", 0, kMany},
      {"trace", &c.trace, "FIRST:LAST: steps whose timeline is trace.json"},
      {"profile", &c.profile,
       "steps to measure, after the first five, for profile.json; 0: none", 0,
       kMany},
      {"study", &c.study,
       "look on for study.jsonl: gradients or convergence, with parameters as "
       "in gradients:every=20 (`sluice study` does more)"},
      {"workers", &c.workers, "ranks", 0, 1e6},
      {"engine", &c.engine, "mpi, threads or simulated"},
      {"net", &c.net, "emulated network"},
      {"timeout", &c.timeout, "seconds to wait for a rank", 0, 1e9},
  };
}

std::string to_json(const TrainConfig& config) {
  TrainConfig copy = config;
  Json json = Json::object();
  for (const Param& p : params_of(copy)) {
    json[std::string(p.name)] = value_of(p);
  }
  return json.dump(2) + "\n";
}

void change_by_json(TrainConfig& config, std::string_view where,
                    std::string_view changes) {
  check_json(where, changes);
  const Json json = Json::parse(changes);
  require(json.is_object(), "[", where,
          "] must be a JSON object such as {\"model\": \"mlp\"}");
  const ParamList params = params_of(config);
  for (const auto& [key, value] : json.items()) {
    const bool known =
        std::any_of(params.begin(), params.end(),
                    [&name = key](const Param& p) { return p.name == name; });
    require(known, "[", where, "] no key '", key, "'; did you mean '",
            nearest(params, key), "'?");
    require(value.is_primitive() && !value.is_null(), "[", where, "] '", key,
            "' must be a number, a string or a truth value, got ",
            value.dump());
    set_param(params, where, key,
              value.is_string() ? value.get<std::string>() : value.dump());
  }
}

std::string difference(TrainConfig a, TrainConfig b) {
  const ParamList left = params_of(a);
  const ParamList right = params_of(b);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (value_of(left[i]) == value_of(right[i])) continue;
    return concat(left[i].name, ": '", to_text(left[i]), "', '",
                  to_text(right[i]), "'");
  }
  return {};
}

DeviceChoice parse_device(std::string_view text) {
  DeviceChoice choice;
  if (text == "cpu") return choice;
  choice.is_cpu = false;
  if (text == "cuda") return choice;
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    choice.number = parse_count(text.substr(kPrefix.size()));
  }
  require(choice.number && *choice.number < 128,
          "[train] parameter 'device' must be cpu, cuda, or a GPU by its "
          "number as in cuda:1, got '",
          text, "'");
  return choice;
}

void choose_device(TrainConfig& config) {
  const bool is_cpu = parse_device(config.device).is_cpu;
  const char* choice = is_cpu ? "off" : "on";
  if (config.tf32 == "auto") config.tf32 = choice;
  if (config.channels_last == "auto") config.channels_last = choice;
}

std::string first_plan(const TrainConfig& config) {
  return parse_device(config.device).is_cpu ? "size=1M" : "single";
}

Every parse_every(std::string_view field, std::string_view text) {
  if (text.empty()) return {};
  Every every;
  if (text.back() == 'e') every.unit = Every::Unit::kEpochs;
  if (text.back() == 's') every.unit = Every::Unit::kSeconds;
  const bool steps = every.unit == Every::Unit::kSteps;
  const auto count = parse_count(text.substr(0, text.size() - (steps ? 0 : 1)));
  require(count.has_value(), "[train] parameter '", field,
          "' must be a number of steps (100), of epochs (1e) or of seconds "
          "(30s), got '",
          text, "'");
  every.count = *count;
  return every;
}

StepRange parse_step_range(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto first = parse_count(text.substr(0, colon));
  const auto last =
      colon == text.size() ? first : parse_count(text.substr(colon + 1));
  require(first && last && *first >= 1 && *last >= *first,
          "[train] parameter 'trace' must be FIRST:LAST, steps counted from 1, "
          "as in 10:12, got '",
          text, "'");
  return {*first, *last};
}

}  // namespace sluice
