// A training loop of one's own on GradientSync: forward and backward are yours,
// the exchange is sluice's. Ranks are threads of this program; MPI would change
// the communicator only.
//
// Learns y = W x + b by least squares, and checks that all ranks end with the
// same bits and with a small loss.

#include <cstdio>
#include <thread>
#include <vector>

#include "sluice/comm/threads/threads.h"
#include "sluice/core/hash.h"
#include "sluice/sync/gradient_sync.h"

namespace {

using namespace sluice;

constexpr std::size_t kRanks = 4;
constexpr std::size_t kInputs = 64;
constexpr std::size_t kOutputs = 128;
constexpr std::size_t kBatch = 16;
constexpr std::uint64_t kSteps = 600;
constexpr float kRate = 0.05F;

// Between -1 and 1, always the same for the same numbers.
float draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return static_cast<float>(
      static_cast<double>(mix64(a, b, c) >> 11) * 0x1p-52 - 1);
}

struct Model {
  std::vector<float> weight = std::vector<float>(kOutputs * kInputs);
  std::vector<float> bias = std::vector<float>(kOutputs);
};

Model model_to_learn() {
  Model model;
  for (std::size_t i = 0; i < model.weight.size(); ++i) {
    model.weight[i] = draw(1, 0, i);
  }
  for (std::size_t i = 0; i < kOutputs; ++i) model.bias[i] = draw(2, 0, i);
  return model;
}

std::vector<float> outputs(const Model& model, const std::vector<float>& x) {
  std::vector<float> y = model.bias;
  for (std::size_t o = 0; o < kOutputs; ++o) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      y[o] += model.weight[o * kInputs + i] * x[i];
    }
  }
  return y;
}

// Adds one sample's gradient; returns its loss.
double backward(const Model& model, const Model& truth,
                const std::vector<float>& x, Model& gradient) {
  const std::vector<float> y = outputs(model, x);
  const std::vector<float> wanted = outputs(truth, x);
  double loss = 0;
  for (std::size_t o = 0; o < kOutputs; ++o) {
    const float error = y[o] - wanted[o];
    loss += static_cast<double>(error * error) / kOutputs;
    gradient.bias[o] += error / kBatch;
    for (std::size_t i = 0; i < kInputs; ++i) {
      gradient.weight[o * kInputs + i] += error * x[i] / kBatch;
    }
  }
  return loss;
}

void descend(std::vector<float>& weights, const std::vector<float>& mean) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] -= kRate * mean[i];
  }
}

// What travels with what, and how: the matrix sparse, the vector dense.
Plan plan_of_model() {
  PlanInput input;
  input.sizes = {kOutputs * kInputs, kOutputs};
  input.dense = {false, true};
  input.sparse.sparsifier = "topk";
  input.sparse.density = 0.05;
  return make_plan("single", input);
}

struct Result {
  Model model;
  double loss = 0;
  std::uint64_t bytes = 0;
};

void train(Communicator& comm, Result& result) {
  const std::vector<std::size_t> matrix = {kOutputs, kInputs};
  const std::vector<std::size_t> vector = {kOutputs};
  const auto backend = make_cpu_backend({1, ""});
  SyncOptions options;
  options.plan = plan_of_model();
  GradientSync sync(comm, *backend, {{"weight", matrix}, {"bias", vector}},
                    options);
  const Model truth = model_to_learn();
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    Model gradient;
    result.loss = 0;
    for (std::size_t sample = 0; sample < kBatch; ++sample) {
      std::vector<float> x(kInputs);
      for (std::size_t i = 0; i < kInputs; ++i) {
        x[i] = draw(step * kRanks + comm.rank(), sample, i);
      }
      result.loss += backward(result.model, truth, x, gradient) / kBatch;
    }
    // As soon as backward has a gradient, it may go.
    sync.begin(step);
    sync.ready(1, contiguous_view(gradient.bias.data(), vector));
    sync.ready(0, contiguous_view(gradient.weight.data(), matrix));
    const SyncReport report = sync.finish();
    result.bytes += report.traffic.bytes_sent;
    if (!report.committed) continue;  // a rank had values that are not finite
    descend(result.model.weight, gradient.weight);
    descend(result.model.bias, gradient.bias);
  }
}

}  // namespace

int main() {
  auto ranks = make_thread_ranks(kRanks);
  std::vector<Result> results(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] { train(*ranks[r], results[r]); });
  }
  for (std::thread& thread : threads) thread.join();

  bool same = true;
  for (const Result& one : results) {
    same = same && one.model.weight == results[0].model.weight &&
           one.model.bias == results[0].model.bias;
  }
  const std::uint64_t dense = 2 * (kRanks - 1) * sizeof(float) *
                              (kOutputs * kInputs + kOutputs) / kRanks;
  std::printf("loss %.2g; sent %.1f kB per step and rank, dense %.1f; %s\n",
              results[0].loss,
              static_cast<double>(results[0].bytes) / (1000.0 * kSteps),
              static_cast<double>(dense) / 1000,
              same ? "all ranks have the same bits" : "ranks differ");
  return same && results[0].loss < 1e-2 ? 0 : 1;
}
