#include "sluice/torch/train/adapter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "ranks.h"
#include "sluice/comm/threads/threads.h"

namespace sluice {
namespace {

using testing::run_ranks;

// A module with a parameter that its output does not depend on.
struct Partial : torch::nn::Module {
  Partial()
      : used(register_parameter("used", torch::ones({4, 3}))),
        unused(register_parameter("unused", torch::ones({2, 5}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return used.mv(x).sum(); }
  torch::Tensor used;
  torch::Tensor unused;
};

// Rank r's model after a step, with `passes` backward passes.
void expect_means(std::size_t ranks_count, int passes, bool stage = false,
                  const torch::Device& device = torch::kCPU) {
  auto ranks = make_thread_ranks(ranks_count);
  run_ranks(ranks, [&](std::size_t r) {
    at::set_num_threads(1);
    Partial module;
    module.to(device);
    const NamedTensors parameters = parameters_of(module);
    const auto backend = stage || device.is_cpu() ? make_cpu_backend({1, ""})
                                                  : make_cuda_backend();
    SyncOptions how;
    PlanInput input;
    input.sizes = {12, 10};
    input.sparse.sparsifier = "none";
    how.plan = make_plan("layerwise", input);
    GradientSync sync(*ranks[r], *backend,
                      describe_tensors("train", parameters), how);
    AutogradAdapter adapter(sync, parameters, stage);
    for (std::uint64_t step = 0; step < 3; ++step) {
      adapter.clear();
      for (int pass = 0; pass < passes; ++pass) {
        if (pass + 1 == passes) {
          sync.begin(step);
          adapter.begin();
        }
        module.forward(torch::full({3}, static_cast<double>(r + 1), device))
            .backward();
      }
      EXPECT_TRUE(adapter.finish().committed);
      const double mean = static_cast<double>(passes * (ranks_count + 1)) / 2;
      EXPECT_TRUE(
          torch::equal(module.used.grad().cpu(), torch::full({4, 3}, mean)));
      EXPECT_TRUE(
          torch::equal(module.unused.grad().cpu(), torch::zeros({2, 5})));
    }
  });
}

TEST(AutogradAdapter, GivesTheMeanOverRanks) { expect_means(3, 1); }
TEST(AutogradAdapter, AddsUpSeveralPasses) { expect_means(2, 3); }
TEST(AutogradAdapter, WorksWithOneRank) { expect_means(1, 1); }
TEST(AutogradAdapter, StagesGradients) { expect_means(2, 2, true); }

// A gradient of which two ranks have selected entries, in that memory format.
torch::Tensor selected(at::MemoryFormat format, bool stage) {
  auto ranks = make_thread_ranks(2);
  torch::Tensor result;
  run_ranks(ranks, [&](std::size_t r) {
    torch::Tensor weight =
        torch::ones({4, 3, 2, 5}).contiguous(format).requires_grad_();
    const NamedTensors parameters = {{"weight", weight}};
    const auto backend = make_cpu_backend({1, ""});
    SyncOptions how;
    PlanInput input;
    input.sizes = {120};
    input.sparse.sparsifier = "adtopk";  // which looks at rows
    how.plan = make_plan("layerwise", input);
    GradientSync sync(*ranks[r], *backend,
                      describe_tensors("train", parameters), how);
    AutogradAdapter adapter(sync, parameters, stage);
    const auto factor =
        torch::arange(120).mul(7 + r).sin().reshape({4, 3, 2, 5});
    for (std::uint64_t step = 0; step < 3; ++step) {
      adapter.clear();
      sync.begin(step, {0.1, 0.1});
      adapter.begin();
      (weight * factor).sum().backward();
      adapter.finish();
    }
    EXPECT_EQ(weight.grad().strides(), weight.strides());
    if (r == 0) result = weight.grad().contiguous();
  });
  return result;
}

TEST(AutogradAdapter, SelectsAlikeInEitherMemoryFormat) {
  const auto expected = selected(at::MemoryFormat::Contiguous, false);
  EXPECT_GT(expected.count_nonzero().item<std::int64_t>(), 10);
  for (const bool stage : {false, true}) {
    EXPECT_TRUE(torch::equal(selected(at::MemoryFormat::ChannelsLast, stage),
                             expected));
  }
}

TEST(AutogradAdapter, LeavesGradientsWhereNothingIsExchanged) {
  Partial module;
  AutogradAdapter adapter(parameters_of(module));
  adapter.clear();
  adapter.begin();
  module.forward(torch::full({3}, 2.0)).backward();
  const SyncReport report = adapter.finish();
  EXPECT_TRUE(report.committed);
  EXPECT_EQ(report.dense_elements, 22U);
  EXPECT_TRUE(torch::equal(module.used.grad(), torch::full({4, 3}, 2.0)));
  EXPECT_TRUE(torch::equal(module.unused.grad(), torch::zeros({2, 5})));
}

TEST(AutogradAdapter, StagesGradientsOfAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "torch sees no GPU here";
  expect_means(2, 2, true, torch::kCUDA);
}

TEST(AutogradAdapter, LeavesGradientsOfAGpuThere) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "torch sees no GPU here";
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  expect_means(2, 2, false, torch::kCUDA);
}

TEST(HostStage, TellsWhatWentWrong) {
  torch::Tensor parameter = torch::ones(3, torch::requires_grad());
  parameter.mutable_grad() = torch::ones(3);
  bool broken = true;
  HostStage stage(
      {{"a", parameter}},
      [&](std::size_t, const torch::Tensor& t) {
        if (broken) throw std::runtime_error("no");
        t.data_ptr<float>()[1] = 5;
      },
      std::chrono::seconds(60));
  stage.fetch(0);
  EXPECT_THROW(stage.drain(), std::runtime_error);
  broken = false;
  stage.fetch(0);
  stage.drain();
  stage.put_back();
  EXPECT_TRUE(
      torch::equal(parameter.grad(), torch::tensor({1.0F, 5.0F, 1.0F})));
}

// A device whose copies begin and never end.
HostStage::Fetch never() {
  return
      [](const torch::Tensor&, torch::Tensor&) { return [] { return false; }; };
}

TEST(HostStage, GivesUpADeviceThatDoesNotAnswer) {
  torch::Tensor parameter = torch::ones(3, torch::requires_grad());
  parameter.mutable_grad() = torch::ones(3);
  const NamedTensors both = {{"a", parameter}, {"b", parameter}};
  std::size_t count = 0;
  HostStage stage(
      both, [&](std::size_t, const torch::Tensor&) { ++count; },
      std::chrono::milliseconds(20), never());
  stage.fetch(1);
  stage.fetch(0);
  try {
    stage.drain();
    FAIL() << "no gradient can have come";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(),
                 "[train] the gradient of 'b' must come from device cpu within "
                 "0.02 s; does the device still work? --timeout allows for "
                 "more");
  }
  EXPECT_EQ(count, 0U);
}

TEST(HostStage, EndsWhileADeviceDoesNotAnswer) {
  torch::Tensor parameter = torch::ones(3, torch::requires_grad());
  parameter.mutable_grad() = torch::ones(3);
  const auto start = std::chrono::steady_clock::now();
  {
    HostStage stage(
        {{"a", parameter}}, [](std::size_t, const torch::Tensor&) {},
        std::chrono::hours(1), never());
    stage.fetch(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace sluice
