#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "files.h"
#include "ranks.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/config/recipe.h"
#include "sluice/core/hash.h"
#include "sluice/run/ranks.h"
#include "sluice/run/run_folder.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/train/late_numbers.h"
#include "sluice/torch/train/model_file.h"
#include "sluice/torch/train/planned_model.h"
#include "sluice/torch/train/replicas.h"
#include "sluice/torch/train/trainer.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::TempFolder;

TEST(Replicas, AreBroadcastAveragedAndCompared) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    const auto value = static_cast<double>(r);
    const NamedTensors tensors = {
        {"a", torch::full({3}, value)},
        {"b", torch::full({2, 2}, 2 * value)},
        {"n", torch::full({}, static_cast<std::int64_t>(r), torch::kInt64)}};
    average_tensors(*ranks[r], 0, tensors);
    EXPECT_TRUE(torch::equal(tensors[0].tensor, torch::full({3}, 1.0)));
    EXPECT_TRUE(torch::equal(tensors[1].tensor, torch::full({2, 2}, 2.0)));
    EXPECT_EQ(tensors[2].tensor.item<std::int64_t>(), 0);
    check_replicas(*ranks[r], 0, tensors);

    if (r == 1) tensors[1].tensor[1][0] = 7;
    const std::string says =
        message_of<AgreedError>([&] { check_replicas(*ranks[r], 5, tensors); });
    EXPECT_CONTAINS(says, "after 5 steps");
    EXPECT_CONTAINS(says, "rank 1 differs from the others in tensor 'b'");
    broadcast_tensors(*ranks[r], 0, tensors);
    check_replicas(*ranks[r], 6, tensors);
  });
}

// Numbers that loops and memory follow from, in a file with good checksums.
TEST(ModelFile, RefusesCountsThatMakeNoSense) {
  const TempFolder folder;
  const std::string path = model_file_path(folder.path());
  const auto error_of = [&](const auto& change) {
    ModelFile file;
    file.plan = "{}";
    change(file);
    write_model_file(path, file);
    return message_of<std::runtime_error>([&] { read_model_file(path, {}); });
  };
  EXPECT_CONTAINS(
      error_of([](ModelFile& f) { f.ranks = std::uint64_t{1} << 31; }),
      "must have 'ranks' from 1 to 1000000, has 2147483648");
  EXPECT_CONTAINS(error_of([](ModelFile& f) { f.ranks = 0; }), "'ranks'");
  EXPECT_CONTAINS(error_of([](ModelFile& f) { f.threads = 0; }), "'threads'");
  EXPECT_CONTAINS(error_of([](ModelFile& f) { f.progress.done = ~0ULL; }),
                  "'step'");
  EXPECT_CONTAINS(
      error_of([](ModelFile& f) { f.progress.steps_per_epoch = 0; }),
      "'steps_per_epoch'");
}

TrainConfig small_job(const TempFolder& folder) {
  TrainConfig config;
  config.model = "mlp:widths=16";
  config.dataset = "synthetic:train=400,test=50";
  config.batch_size = 8;
  config.max_steps = 6;
  config.threads = 1;
  config.collective = "sparcml-split";
  config.dense_collective = "dense:by=ring";
  config.out = folder / "run";
  config.replica_check = 1;
  return config;
}

// The summary of each rank.
std::vector<TrainSummary> train(const TrainConfig& config,
                                std::size_t ranks_count,
                                TrainOptions options = {}) {
  auto ranks = make_thread_ranks(ranks_count);
  std::vector<TrainSummary> summaries(ranks_count);
  options.lines_to_stderr = true;
  run_ranks(ranks, [&](std::size_t r) {
    summaries[r] = run_training(config, options, *ranks[r]);
  });
  return summaries;
}

TEST(Trainer, EndsWithTheSameWeightsOnAllRanks) {
  const TempFolder folder;
  const auto summaries = train(small_job(folder), 3);
  EXPECT_EQ(summaries[0].steps, 6);
  EXPECT_EQ(summaries[0].weights, summaries[1].weights);
  EXPECT_EQ(summaries[0].weights, summaries[2].weights);
  EXPECT_GT(summaries[0].memory_bytes, 0);
}

TEST(Trainer, IsPlainTrainingWithOneRankAndNoSparsifier) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.sparsifier = "none";
  config.lr_schedule = "constant";
  choose_recipe(config);
  const std::uint64_t weights = train(config, 1)[0].weights;

  at::set_num_threads(1);
  const auto data = make_dataset(config.dataset);
  const PlannedModel model = make_planned_model(config, data->input());
  const auto optimizer = make_optimizer(config.optimizer, model.parameters);
  SamplerOptions how;
  how.batch = static_cast<std::uint64_t>(config.batch_size);
  how.seed = static_cast<std::uint64_t>(config.seed);
  Loader loader(*data, how);
  for (int step = 0; step < 6; ++step) {
    const Batch batch = loader.next();
    model.module->zero_grad();
    torch::nn::functional::cross_entropy(
        dynamic_cast<ImageModel&>(*model.module).forward(batch.tensors[0]),
        batch.tensors[1])
        .backward();
    optimizer->step(config.lr);
  }
  EXPECT_EQ(weights, hash_tensors(model.parameters));
}

// "step loss accuracy skipped" of each line of metrics.jsonl.
std::vector<std::array<double, 4>> metrics_of(const TrainConfig& config) {
  std::vector<std::array<double, 4>> rows;
  std::ifstream in(config.out + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    // Null where the loss is not finite.
    rows.push_back({row["step"],
                    row["loss"].is_null() ? -1 : double(row["loss"]),
                    row["accuracy"], row.value("skipped", 0.0)});
  }
  return rows;
}

// On the way of a device, and on the host's.
void expect_alike(TrainConfig config, std::size_t ranks, bool same_bits) {
  config.log_every = 2;
  config.eval_every = "3";
  config.out += "-host";
  const TrainSummary host = train(config, ranks)[0];
  const auto expected = metrics_of(config);
  config.out += "-device";
  TrainOptions options;
  options.as_device = true;
  const TrainSummary device = train(config, ranks, options)[0];
  const auto got = metrics_of(config);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i][0], expected[i][0]);
    EXPECT_NEAR(got[i][1], expected[i][1], same_bits ? 1e-12 : 1e-5);
    EXPECT_EQ(got[i][2], expected[i][2]);
  }
  EXPECT_EQ(device.density, host.density);
  if (same_bits) {
    EXPECT_EQ(device.weights, host.weights);
  }
}

TEST(Trainer, ReadsTheSameNumbersLateOnADevice) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.accumulate = 2;
  config.clip_local = 1e9;  // too high to change anything
  expect_alike(config, 2, true);
}

TEST(Trainer, LeavesGradientsOfALoneDeviceWhereTheyAre) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.sparsifier = "none";
  config.clip = 0.5;
  expect_alike(config, 1, false);
}

TEST(Trainer, SkipsOnALoneDeviceWhatIsNotFinite) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.sparsifier = "none";
  config.lr_schedule = "constant";
  config.lr = 1e30;  // the second step overflows, and all after it
  config.max_steps = 8;
  config.log_every = 1;
  config.eval_every = "0";
  TrainOptions options;
  options.as_device = true;
  EXPECT_EQ(train(config, 1, options)[0].skipped, 7U);
  const auto rows = metrics_of(config);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[0][3], 0);
  EXPECT_EQ(rows[1][3], 1);

  config.nonfinite = "stop";
  config.out += "-stop";
  EXPECT_CONTAINS(message_of<std::runtime_error>([&] {
                    run_training(config, options, *make_thread_ranks(1)[0]);
                  }),
                  "in step 2; a lower --lr or --clip 1 may help");
}

TEST(Trainer, TakesEitherMemoryFormat) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.model = "resnet20";
  config.dataset = "synthetic:channels=3,height=8,width=8,train=64,test=16";
  config.max_steps = 3;
  config.density = 0.1;
  config.lr = 0.01;
  config.eval_every = "0";
  const TrainSummary plain = train(config, 2)[0];
  config.channels_last = "on";
  config.out += "-last";
  const TrainSummary last = train(config, 2)[0];
  EXPECT_NEAR(last.loss, plain.loss, 1e-4);
  EXPECT_NE(last.weights, 0);

  // A checkpoint of one goes on as the other.
  TrainOptions options;
  options.resume = config.out;
  config.max_steps = 5;
  config.channels_last = "off";
  EXPECT_TRUE(std::isfinite(train(config, 2, options)[0].loss));
}

TEST(PlannedModel, HasTheSameValuesChannelsLast) {
  TrainConfig config;
  config.model = "resnet20";
  const ImageInput input = {3, 8, 8, 10};
  const PlannedModel plain = make_planned_model(config, input);
  config.channels_last = "on";
  const PlannedModel last = make_planned_model(config, input);
  EXPECT_EQ(last.format, at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(last.parameters[0].tensor.is_contiguous(last.format));
  EXPECT_EQ(hash_tensors(last.parameters), hash_tensors(plain.parameters));
  config.model = "mlp";
  EXPECT_EQ(make_planned_model(config, input).format,
            at::MemoryFormat::Contiguous);
}

// What autocast keeps of weights over passes must go when they change.
TEST(Trainer, CastsWeightsOnceAStep) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.precision = "bf16";
  config.model = "lenet";
  config.dataset = "synthetic:channels=1,height=28,width=28,train=400,test=50";
  const double few = train(config, 1)[0].loss;
  config.accumulate = 2;
  config.batch_size = 4;
  config.out += "-accumulated";
  EXPECT_NEAR(train(config, 1)[0].loss, few, 0.05);
}

TEST(LateNumbers, AreThoseThatWereGiven) {
  const LateNumbers late(torch::tensor({1.5F, -2.0F}));
  EXPECT_EQ(late.get(), (std::vector<double>{1.5, -2.0}));
}

TEST(Trainer, GivesEachBucketTheDensityOfItsPlan) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.plan = "layerwise";
  config.density = 0.01;
  config.density_schedule = "0.02";  // in the first epoch: twice as high
  const auto input = make_dataset(config.dataset)->input();
  PlannedModel model = make_planned_model(config, input);
  ASSERT_EQ(model.plan.buckets.size(), 3);  // two weights, then all biases
  model.plan.buckets[0].density = 0.25;
  model.plan.buckets[1].density = std::nullopt;
  write_text(folder / "plan.json", to_json(model.plan, model.names));
  config.plan = folder / "plan.json";
  const TrainSummary summary = train(config, 2)[0];

  const auto size = [&](std::size_t bucket) {
    double sum = 0;
    for (const std::size_t t : model.plan.buckets[bucket].tensors) {
      sum += static_cast<double>(model.parameters[t].tensor.numel());
    }
    return sum;
  };
  const double all = size(0) + size(1) + size(2);
  // A budget is rounded to whole entries.
  EXPECT_NEAR(summary.density * all,
              2 * 0.25 * size(0) + 0.02 * size(1) + size(2), 1);
  EXPECT_NEAR(summary.k_hat_over_k, 1, 1e-9);
}

TEST(Trainer, StopsOnAllRanksIfOneIsAsked) {
  const TempFolder folder;
  TrainConfig config = small_job(folder);
  config.max_steps = 1000;
  const std::atomic<bool> asked = true;
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    TrainOptions options;
    options.lines_to_stderr = true;
    if (r == 1) options.stop = &asked;
    const TrainSummary summary = run_training(config, options, *ranks[r]);
    EXPECT_EQ(summary.steps, 1);
    EXPECT_TRUE(summary.stopped);
  });
}

}  // namespace
}  // namespace sluice
