// What GradientSync costs where it has nothing to gain: steps of one rank with
// sparsifier `none`, through the full pipeline, against a plain torch loop.
//
//   sluice_step_overhead [MODEL [DATASET [BATCH [PAIRS]]]]
//
// Steps of both kinds alternate, so that whatever else the machine does hits
// both; it prints the medians and the median of the ratios of neighbours.

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sluice/comm/threads/threads.h"
#include "sluice/torch/data/loader.h"
#include "sluice/torch/optim/optimizer.h"
#include "sluice/torch/train/adapter.h"
#include "sluice/torch/train/planned_model.h"

namespace {

using namespace sluice;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

SyncOptions with_plan(const Plan& plan) {
  SyncOptions options;
  options.plan = plan;
  return options;
}

class Bench {
 public:
  explicit Bench(const TrainConfig& config)
      : data_(make_dataset(config.dataset)),
        loader_(*data_,
                {.batch = static_cast<std::uint64_t>(config.batch_size)}),
        plain_(make_planned_model(config, data_->input())),
        synced_(make_planned_model(config, data_->input())),
        plain_optimizer_(make_optimizer("sgd", plain_.parameters)),
        synced_optimizer_(make_optimizer("sgd", synced_.parameters)),
        ranks_(make_thread_ranks(1)),
        backend_(make_cpu_backend({1, ""})),
        sync_(*ranks_[0], *backend_, synced_.tensors, with_plan(synced_.plan)),
        adapter_(sync_, synced_.parameters) {}

  double plain() {
    const Batch batch = loader_.next();
    const auto start = Clock::now();
    plain_.module->zero_grad();
    loss(plain_, batch).backward();
    plain_optimizer_->step(0.01);
    return since(start);
  }

  double synced() {
    const Batch batch = loader_.next();
    const auto start = Clock::now();
    adapter_.clear();
    const torch::Tensor value = loss(synced_, batch);
    sync_.begin(step_++);
    adapter_.begin();
    value.backward();
    adapter_.finish();
    synced_optimizer_->step(0.01);
    return since(start);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  static torch::Tensor loss(const PlannedModel& model, const Batch& batch) {
    return torch::nn::functional::cross_entropy(
        model.module->forward(batch.images), batch.labels);
  }

  std::unique_ptr<Dataset> data_;
  Loader loader_;
  PlannedModel plain_;
  PlannedModel synced_;
  std::unique_ptr<Optimizer> plain_optimizer_;
  std::unique_ptr<Optimizer> synced_optimizer_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::unique_ptr<Backend> backend_;
  GradientSync sync_;
  AutogradAdapter adapter_;
  std::uint64_t step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  TrainConfig config;
  config.sparsifier = "none";
  if (argc > 1) config.model = argv[1];
  if (argc > 2) config.dataset = argv[2];
  if (argc > 3) config.batch_size = std::atoll(argv[3]);
  const int pairs = argc > 4 ? std::atoi(argv[4]) : 200;
  Bench bench(config);
  for (int i = 0; i < 10; ++i) bench.plain(), bench.synced();
  std::vector<double> plain;
  std::vector<double> synced;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    plain.push_back(bench.plain());
    synced.push_back(bench.synced());
    ratios.push_back(synced.back() / plain.back());
  }
  std::printf("%s: plain %.3f ms, synced %.3f ms, ratio %.4f\n",
              config.model.c_str(), 1e3 * median(plain), 1e3 * median(synced),
              median(ratios));
}
