// One thread through every noun: ranks as threads train a linear model through
// feedback, sparsifier, codec and all-gather, on the CPU and on the fake
// device.

#include <cmath>
#include <thread>

#include "exchanger.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/threads/threads.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kRows = 20;
constexpr std::size_t kCols = 30;
constexpr std::size_t kSize = kRows * kCols;

struct Training {
  std::vector<std::vector<float>> weights;  // per rank
  double first_loss = 0;
  double last_loss = 0;
  double worst_imbalance = 0;  // of law 1
};

// y = W x with data of its own on every rank; gradient of the squared error.
std::vector<float> gradient(const std::vector<float>& w, std::size_t rank,
                            std::uint64_t step, double& loss) {
  const auto x = gaussian(kCols, 1000 * rank + step + 1);
  const auto truth = gaussian(kSize, 5);
  std::vector<float> g(kSize);
  loss = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    double error = 0;
    for (std::size_t j = 0; j < kCols; ++j) {
      error += double(w[i * kCols + j] - truth[i * kCols + j]) * double(x[j]);
    }
    loss += error * error;
    for (std::size_t j = 0; j < kCols; ++j) {
      g[i * kCols + j] = static_cast<float>(error * double(x[j]));
    }
  }
  return g;
}

Training train(const std::string& sparsifier, const std::string& feedback,
               const std::string& backend, std::size_t size,
               std::uint64_t steps, double density) {
  auto ranks = make_thread_ranks(size);
  Training run;
  run.weights.assign(size, std::vector<float>(kSize, 0));
  std::vector<std::vector<float>> gradients(size);
  std::vector<std::vector<float>> residuals(size, std::vector<float>(kSize, 0));
  std::vector<std::vector<float>> means(size, std::vector<float>(kSize));
  std::vector<std::vector<double>> owed(steps, std::vector<double>(kSize, 0));
  std::vector<std::vector<std::vector<float>>> after(
      steps, std::vector<std::vector<float>>(size));
  std::vector<std::vector<std::vector<float>>> grads = after;
  std::vector<std::vector<float>> mean_of_step(steps);

  const auto worker = [&](std::size_t r) {
    Rig::Options o;
    o.sparsifier = sparsifier;
    o.feedback = feedback;
    o.backend = backend;
    o.tensors = {{kRows, kCols}};
    Rig rig(o);
    auto allreduce = make_collective("allgather");
    Exchanger exchanger(rig.backend());
    for (std::uint64_t step = 0; step < steps; ++step) {
      double loss = 0;
      grads[step][r] = gradient(run.weights[r], r, step, loss);
      if (r == 0 && step == 0) run.first_loss = loss;
      if (r == 0) run.last_loss = loss;
      rig.step(grads[step][r], density, false);
      Feedback& staged = rig.feedback();
      exchanger.reduce(*allreduce, *ranks[r],
                       {staged.staged(), staged.forms(), staged.budget(), step,
                        staged.residuals()});
      EXPECT_TRUE(exchanger.delivery().returned.lists.empty());
      const std::vector<float> update = exchanger.sum(1.0F / float(size));
      if (vote_on(*ranks[r], step, true).decision == Decision::kCommitted) {
        rig.commit();
      } else {
        rig.rollback();
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        run.weights[r][i] -= 0.01F * update[i];
      }
      after[step][r] = rig.residual();
      if (r == 0) mean_of_step[step] = update;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < size; ++r) threads.emplace_back(worker, r);
  for (std::thread& t : threads) t.join();

  for (std::uint64_t step = 0; step < steps && feedback == "residual"; ++step) {
    for (std::size_t i = 0; i < kSize; ++i) {
      double before = 0;
      double now = double(size) * double(mean_of_step[step][i]);
      double scale = 0;
      for (std::size_t r = 0; r < size; ++r) {
        const double old = step == 0 ? 0 : double(after[step - 1][r][i]);
        before += old + double(grads[step][r][i]);
        now += double(after[step][r][i]);
        scale += std::abs(old) + std::abs(double(grads[step][r][i]));
      }
      const double bound =
          (double(size) + 4) * std::ldexp(1.0, -24) * scale + 1e-30;
      run.worst_imbalance =
          std::max(run.worst_imbalance, std::abs(now - before) / bound);
    }
  }
  return run;
}

class ToyTraining
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(ToyTraining, LearnsWithIdenticalReplicasAndLosesNothing) {
  const auto& [sparsifier, backend] = GetParam();
  for (const std::size_t size : {1, 2, 3}) {
    const Training run =
        train(sparsifier, "residual", backend, size, 120, 0.05);
    for (std::size_t r = 1; r < size; ++r) {
      EXPECT_EQ(run.weights[r], run.weights[0]) << "rank " << r;
    }
    EXPECT_LE(run.worst_imbalance, 1) << "ranks " << size;
    EXPECT_LT(run.last_loss, run.first_loss);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nouns, ToyTraining,
    ::testing::Combine(::testing::Values("topk", "adtopk", "randomk", "sidco-p",
                                         "none"),
                       ::testing::ValuesIn(device_names())),
    [](const auto& c) {
      return safe_name(std::get<0>(c.param) + "_" + std::get<1>(c.param));
    });

}  // namespace
}  // namespace sluice::testing
