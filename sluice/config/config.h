#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/core/params.h"

namespace sluice {

// Everything that decides about a training run, as in its config.json.
struct TrainConfig {
  std::string model = "mlp";
  std::string dataset = "fashion-mnist";
  std::string data_dir;
  std::string init;  // weights to begin with
  std::int64_t batch_size = 64;
  std::int64_t length = 0;  // of sequences, in tokens; 0: the task's own
  std::int64_t accumulate = 1;
  std::int64_t epochs = 5;
  std::int64_t max_steps = 0;
  std::string optimizer = "auto";  // and rate 0: see choose_recipe
  double lr = 0;
  std::string lr_schedule = "auto";
  double clip = 0;
  double clip_local = 0;
  std::string clip_norm = "global";  // of both; or "tensor"
  std::string precision = "fp32";
  std::string nonfinite = "skip";

  std::string sparsifier = "topk";
  double density = 0.01;
  std::string density_schedule;
  std::string feedback = "residual";
  std::string values = "fp32";
  std::string collective = "auto";
  std::string dense_collective = "dense";
  std::string network = "nominal";
  std::string plan = "auto";  // and without costs: see first_plan
  std::string replan = "off";
  std::string costs;  // a profile.json
  std::int64_t machine_ranks = 0;
  std::string spare_cores = "auto";
  std::string dense;
  std::string no_feedback;
  std::int64_t dense_below = 0;
  std::int64_t dense_rank = 1;

  std::int64_t seed = 1;
  std::string device = "cpu";
  std::string tf32 = "auto";  // and channels-last: see choose_device
  std::string channels_last = "auto";
  std::string deterministic = "off";
  std::string gpu_link = "auto";
  std::int64_t threads = 0;
  std::int64_t data_threads = 0;
  std::int64_t prefetch = 2;

  std::string out;
  std::string checkpoint_every;
  std::int64_t keep = 2;
  double write_timeout = 600;  // seconds
  std::string eval_every = "1e";
  std::int64_t log_every = 10;
  std::int64_t replica_check = 100;
  std::string trace;
  std::int64_t profile = 0;
  std::string study;  // see make_study; empty: none

  // How the ranks were made; see LaunchOptions.
  std::int64_t workers = 0;
  std::string engine;
  std::string net;
  double timeout = 60;
};

// Its fields, with what they mean and may be; they point into `config`.
ParamList params_of(TrainConfig& config);

// An object with a key per field. `changes` sets what it has and leaves the
// rest; it throws std::invalid_argument, beginning with `where`, for what is
// not such an object, naming the nearest key for one that is unknown.
std::string to_json(const TrainConfig& config);
void change_by_json(TrainConfig& config, std::string_view where,
                    std::string_view changes);

// Throws std::invalid_argument if a field makes no sense; needs no torch, so it
// cannot tell about models and optimizers.
void check_config(const TrainConfig& config);

// The first field in which two differ, as "key: this, that"; empty if none.
std::string difference(TrainConfig a, TrainConfig b);

// "cpu", "cuda" (any) or "cuda:1" (that one). Throws std::invalid_argument.
struct DeviceChoice {
  bool is_cpu = true;
  std::optional<std::size_t> number;
};
DeviceChoice parse_device(std::string_view text);

// Puts what suits the device in place of "auto": TF32 and channels-last are on
// for GPUs. Throws std::invalid_argument if there can be no such device.
void choose_device(TrainConfig& config);

// What a run plans by until it has measured what its steps take. On a GPU all
// sparse tensors travel together, since the device and the host wait for each
// other once per bucket.
std::string first_plan(const TrainConfig& config);

// "100" is every 100 steps, "2e" every 2 epochs, "30s" every 30 seconds, "" and
// "0" never.
struct Every {
  enum class Unit { kSteps, kEpochs, kSeconds };

  std::uint64_t count = 0;
  Unit unit = Unit::kSteps;

  // In steps; 0: never, or by the clock.
  std::uint64_t period(std::uint64_t steps_per_epoch) const {
    if (unit == Unit::kSeconds) return 0;
    return unit == Unit::kEpochs ? count * steps_per_epoch : count;
  }
};
Every parse_every(std::string_view field, std::string_view text);

// "10:12" is steps 10, 11 and 12, counted from 1; "" is none.
struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  bool has(std::uint64_t step) const {
    return first > 0 && step >= first && step <= last;
  }
};
StepRange parse_step_range(std::string_view text);

}  // namespace sluice
