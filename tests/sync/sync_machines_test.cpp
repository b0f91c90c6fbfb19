// Hierarchical plans: the laws of a step where ranks of a machine exchange as
// one, on machines of any size.

#include "sluice/comm/machines.h"
#include "sync/sync_support.h"

namespace sluice::testing::machines_test {
namespace {

using Layout = std::vector<std::size_t>;

struct Step {
  std::vector<float> mean;
  std::vector<float> gradient;
  std::vector<float> residual;
  SyncReport report;
};
using Steps = std::vector<std::vector<Step>>;  // by rank, then step

SyncOptions options_of(const Scenario& job, const Layout& layout) {
  SyncOptions options;
  options.plan = plan_of(job);
  options.plan.hierarchical = true;
  options.nonfinite = job.nonfinite;
  options.machine_of = layout;
  return options;
}

Step run_step(GradientSync& sync, DeviceGradients& device, std::uint64_t step,
              const Gradients& gradients) {
  Step s;
  s.gradient = flat(gradients);
  s.report = device.run(sync, step, gradients);
  s.mean = device.get();
  s.residual = sync.save().residual;
  return s;
}

Steps run(const Scenario& job, const Layout& layout, std::size_t nan_rank = 0) {
  auto ranks = make_thread_ranks(layout.size());
  LinkHub hub;
  Steps out(layout.size());
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    SyncOptions options = options_of(job, layout);
    const auto link = make_link(job.backend, hub, *ranks[r], *backend);
    options.link = link.get();
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      Gradients g = gradients_of(r, step);
      if (step == job.nan_at && r == nan_rank) g[0][3] = NAN;
      if (job.positive) make_positive(g);
      out[r].push_back(run_step(sync, device, step, g));
    }
  });
  return out;
}

// Law 1 over all ranks, law 2, and that one residual is kept per machine.
void expect_law(const Steps& ranks, const Layout& layout) {
  for (std::size_t step = 0; step < ranks[0].size(); ++step) {
    for (std::size_t j = 0; j < total_size(); ++j) {
      double owed = 0;
      double have = double(ranks.size()) * double(ranks[0][step].mean[j]);
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const auto& rank = ranks[r];
        ASSERT_EQ(rank[step].mean[j], ranks[0][step].mean[j]);
        const double before =
            step == 0 ? 0 : double(rank[step - 1].residual[j]);
        owed += before + double(rank[step].gradient[j]);
        have += double(rank[step].residual[j]);
        if (!Machines(layout, r, layout.size()).leads()) {
          ASSERT_EQ(rank[step].residual[j], 0.0F);
        }
      }
      ASSERT_NEAR(have, owed, 2e-5) << "step " << step << " index " << j;
    }
  }
}

const std::vector<Layout> kLayouts = {
    {0, 0, 1, 1},         {0, 0, 0, 1},
    {5, 0, 5, 0},         {0, 0, 0},
    {0, 1, 1, 2, 2, 2},   {0, 0, 0, 0, 1, 1, 1, 1},
    {0, 1, 0, 1, 2, 0, 1}};

// Plan, sparsifier and collective; on a backend.
using Way = std::tuple<std::string, std::string, std::string>;
class Hierarchical
    : public ::testing::TestWithParam<std::tuple<Way, std::string>> {};

TEST_P(Hierarchical, LosesNothing) {
  Scenario job;
  std::tie(job.plan, job.sparsifier, job.collective) = std::get<0>(GetParam());
  job.backend = std::get<1>(GetParam());
  if (!has_collective(job.collective)) GTEST_SKIP() << job.collective;
  for (const Layout& layout : kLayouts) {
    const Steps ranks = run(job, layout);
    if (is_linked(job.backend) && job.collective == "dense-bf16") {
      // The link sums over all ranks, each of which rounds for itself.
      expect_law(ranks, machines_of(layout.size(), 1));
    } else {
      expect_law(ranks, layout);
    }
    if (::testing::Test::HasFatalFailure()) return;
    for (std::size_t r = 0; r < layout.size(); ++r) {
      const bool leads = Machines(layout, r, layout.size()).leads();
      const SyncReport& report = ranks[r][0].report;
      EXPECT_TRUE(report.committed);
      EXPECT_EQ(report.selected > 0, leads && job.sparsifier != "none");
      EXPECT_EQ(report.sparse_elements + report.dense_elements, total_size());
    }
  }
}

const std::vector<Way> kWays = {
    {"layerwise", "topk", "auto"},      {"single", "topk", "balanced"},
    {"size=3k", "adtopk", "allgather"}, {"single", "topk", "gtopk"},
    {"single", "topk", "oktopk"},       {"single", "topk", "cltk"},
    {"layerwise", "sidco-p", "dense"},  {"single", "tile:two_bit=true", "auto"},
    {"layerwise", "none", "dense"},     {"single", "none", "dense-bf16"}};
INSTANTIATE_TEST_SUITE_P(
    Plans, Hierarchical,
    ::testing::Combine(::testing::ValuesIn(kWays),
                       ::testing::ValuesIn(device_and_linked_names())),
    [](const auto& c) {
      const Way& way = std::get<0>(c.param);
      return safe_name(std::get<0>(way) + "_" + std::get<1>(way) + "_" +
                       std::get<2>(way) + "_" + std::get<1>(c.param));
    });

// What P ranks of one machine select is what one rank selects from the sum.
TEST(HierarchicalSync, SelectsFromTheSumOfTheMachine) {
  Scenario job;
  job.plan = "single";
  job.collective = "allgather";
  job.steps = 1;
  const Steps together = run(job, {0, 0, 0});
  Gradients sum = gradients_of(0, 0);
  for (const std::size_t r : {1, 2}) {
    const Gradients more = gradients_of(r, 0);
    for (std::size_t t = 0; t < sum.size(); ++t) {
      for (std::size_t i = 0; i < sum[t].size(); ++i) sum[t][i] += more[t][i];
    }
  }
  auto one = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  DeviceGradients device(*backend);
  SyncOptions options;
  options.plan = plan_of(job);
  GradientSync sync(*one[0], *backend, kTensors, options);
  const Step alone = run_step(sync, device, 0, sum);
  EXPECT_EQ(together[0][0].residual, alone.residual);
  for (std::size_t j = 0; j < total_size(); ++j) {
    ASSERT_FLOAT_EQ(3 * together[1][0].mean[j], alone.mean[j]);
  }
}

// Large enough for ranks of a machine to share the work of adding, in several
// segments; whatever the form in which the mean is handed out.
TEST(HierarchicalSync, LosesNothingOfLargeBuckets) {
  const std::vector<TensorInfo> tensors = {{"w", {300, 400}}, {"b", {50'000}}};
  constexpr std::size_t kElements = 170'000;
  for (const double density : {0.01, 0.7}) {
    const Layout layout = {0, 1, 0, 1, 0};
    std::vector<double> owed(kElements);
    std::vector<double> have(kElements);
    std::mutex mutex;
    std::vector<std::vector<float>> means(layout.size());
    auto ranks = make_thread_ranks(layout.size());
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend("cpu/portable");
      SyncOptions options;
      options.plan.hierarchical = true;
      options.plan.buckets.resize(2);
      options.plan.buckets[0].tensors = {0};
      options.plan.buckets[1].tensors = {1};
      options.plan.buckets[1].sparsifier = "none";
      options.plan.buckets[1].collective = "dense-bf16";
      options.machine_of = layout;
      GradientSync sync(*ranks[r], *backend, tensors, options);
      for (std::uint64_t step = 0; step < 3; ++step) {
        std::vector<float> g = gaussian(kElements, 10 * step + r);
        const std::vector<float> brought = g;
        sync.begin(step, {density, density});
        sync.ready(1, contiguous_view(g.data() + 120'000, tensors[1].dims));
        sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
        EXPECT_TRUE(sync.finish().committed);
        means[r] = g;
        const std::lock_guard lock(mutex);
        for (std::size_t j = 0; j < kElements; ++j) {
          owed[j] += double(brought[j]);
          have[j] += double(g[j]);
        }
      }
      const std::vector<float> residual = sync.save().residual;
      const std::lock_guard lock(mutex);
      for (std::size_t j = 0; j < kElements; ++j)
        have[j] += double(residual[j]);
    });
    for (const auto& mean : means) EXPECT_EQ(mean, means[0]);
    for (std::size_t j = 0; j < kElements; ++j) {
      ASSERT_NEAR(have[j], owed[j], 5e-5) << density << " " << j;
    }
  }
}

// With a rank each, or one rank in all, it is what it is without.
TEST(HierarchicalSync, IsFlatWithOneRankPerMachine) {
  for (const Layout& layout : {Layout{0}, Layout{2, 0, 1}}) {
    Scenario job;
    job.plan = "single";
    job.collective = "balanced";
    job.ranks = layout.size();
    const Steps machines = run(job, layout);
    auto ranks = make_thread_ranks(layout.size());
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend("cpu/portable");
      DeviceGradients device(*backend);
      SyncOptions options;
      options.plan = plan_of(job);
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      for (std::uint64_t step = 0; step < job.steps; ++step) {
        const Step s = run_step(sync, device, step, gradients_of(r, step));
        EXPECT_EQ(s.mean, machines[r][step].mean);
        EXPECT_EQ(s.residual, machines[r][step].residual);
      }
    });
  }
}

// Ranks that are threads share a machine: engines say so.
TEST(HierarchicalSync, AsksTheEngineForMachines) {
  Scenario job;
  job.ranks = 3;
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options_of(job, {}));
    const Step s = run_step(sync, device, 0, gradients_of(r, 0));
    EXPECT_EQ(s.report.selected > 0, r == 0);
  });
  auto few = make_thread_ranks(2);
  run_ranks(few, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    EXPECT_THROW(
        GradientSync(*few[r], *backend, kTensors, options_of(job, {0, 0, 1})),
        std::invalid_argument);
  });
}

// Momentum correction on the machine's sum: what is sent in all and kept is
// what a rank that has the sum of all gradients would make of it.
TEST(HierarchicalSync, DgcKeepsTheMomentumOfTheMachine) {
  for (const std::string backend_name : {"cpu/portable", "fake"}) {
    const Layout layout = {0, 0, 1};
    auto ranks = make_thread_ranks(layout.size());
    std::vector<GradientSync::State> states(layout.size());
    std::vector<std::vector<double>> received(
        layout.size(), std::vector<double>(total_size()));
    constexpr std::uint64_t kSteps = 3;
    run_ranks(ranks, [&](std::size_t r) {
      Scenario job;
      job.plan = "single";
      job.feedback = "dgc:masking=false";
      job.collective = "allgather";
      auto backend = make_backend(backend_name);
      DeviceGradients device(*backend);
      GradientSync sync(*ranks[r], *backend, kTensors, options_of(job, layout));
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        device.run(sync, step, gradients_of(r, step));
        const std::vector<float> mean = device.get();
        for (std::size_t j = 0; j < mean.size(); ++j) {
          received[r][j] += double(mean[j]);
        }
      }
      states[r] = sync.save();
    });
    for (std::size_t r = 1; r < layout.size(); ++r) {
      EXPECT_EQ(received[r], received[0]);
    }
    // The first tensor, which is sparse: v is the sum of all u so far.
    for (std::size_t j = 0; j < size_of(kTensors[0]); ++j) {
      double u = 0;
      double v = 0;
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        u *= 0.9;
        for (std::size_t r = 0; r < layout.size(); ++r) {
          u += double(gradients_of(r, step)[0][j]);
        }
        v += u;
      }
      double have = double(layout.size()) * received[0][j];
      double momenta = 0;
      for (const auto& state : states) {
        have += double(state.residual[j]);
        momenta += double(state.momentum[j]);
      }
      ASSERT_NEAR(have, v, 1e-4) << j;
      ASSERT_NEAR(momenta, u, 1e-4) << j;
      ASSERT_EQ(states[1].momentum[j], 0.0F);
    }
  }
}

// DGC's clip bounds the norm over all workers, however they are added up: a
// machine's sum may be as long as that of so many workers.
TEST(HierarchicalSync, DgcClipsAsManyWorkersAsItAdds) {
  const std::vector<TensorInfo> tensors = {{"w", {10, 10}}};
  auto ranks = make_thread_ranks(4);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    BucketPlan bucket;
    bucket.tensors = {0};
    bucket.feedback = "dgc:clip=8,workers=4";
    bucket.collective = "allgather";
    bucket.density = 1;
    options.plan.buckets = {bucket};
    options.plan.hierarchical = true;
    options.machine_of = {0, 0, 0, 0};
    GradientSync sync(*ranks[r], *backend, tensors, options);
    std::vector<float> g(100);
    g[7] = 100;
    sync.begin(0, {1, 1});
    sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
    sync.finish();
    EXPECT_NEAR(g[7], 2, 1e-4);  // 8 over 4 ranks
  });
}

// What is lost where nothing is kept is counted once.
TEST(HierarchicalSync, CountsWhatIsLostWhereNothingIsKept) {
  for (const std::string collective : {"oktopk", "cltk", "allgather"}) {
    Scenario job;
    job.plan = "single";
    job.feedback = "none";
    job.collective = collective;
    job.positive = true;
    const Steps ranks = run(job, {0, 0, 1, 0});
    for (std::size_t step = 0; step < job.steps; ++step) {
      double brought = 0;
      double have = 0;
      for (const auto& rank : ranks) {
        for (std::size_t j = 0; j < total_size(); ++j) {
          brought += double(rank[step].gradient[j]);
          have += double(rank[step].mean[j]);
        }
        have += rank[step].report.lost;
      }
      EXPECT_NEAR(have, brought, 1e-4 * brought) << collective;
    }
  }
}

// Law 7, whoever has the NaN: a leader, or a rank that it adds up.
TEST(HierarchicalSync, SkipsANonFiniteStepEverywhere) {
  const Layout layout = {0, 0, 1, 1};
  for (const std::string backend : {"cpu/portable", "fake"}) {
    for (const std::size_t who : {0, 1, 3}) {
      Scenario job;
      job.backend = backend;
      job.nan_at = 1;
      const Steps ranks = run(job, layout, who);
      for (std::size_t r = 0; r < layout.size(); ++r) {
        EXPECT_TRUE(ranks[r][0].report.committed);
        EXPECT_FALSE(ranks[r][1].report.committed);
        EXPECT_TRUE(ranks[r][2].report.committed);
        for (const float v : ranks[r][1].residual) {
          ASSERT_TRUE(std::isfinite(v));
        }
        // Of the step, every rank keeps what it brought.
        const std::size_t j = 5;
        EXPECT_EQ(ranks[r][1].residual[j],
                  ranks[r][0].residual[j] + ranks[r][1].gradient[j])
            << r;
      }
      // The next one adds it up: as much is there as without the NaN.
      for (std::size_t j = 0; j < size_of(kTensors[0]); ++j) {
        double owed = 0;
        double have = 4 * double(ranks[0][2].mean[j]);
        for (const auto& rank : ranks) {
          owed += double(rank[1].residual[j]) + double(rank[2].gradient[j]);
          have += double(rank[2].residual[j]);
        }
        ASSERT_NEAR(have, owed, 2e-5);
      }
      EXPECT_EQ(ranks[1][2].residual, std::vector<float>(total_size()));
    }
  }
}

TEST(HierarchicalSync, SumsOfAMachineThatOverflowAreSkipped) {
  auto ranks = make_thread_ranks(3);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    BucketPlan bucket;
    bucket.tensors = {0};
    options.plan.buckets = {bucket};
    options.plan.hierarchical = true;
    options.machine_of = {0, 0, 1};
    const std::vector<TensorInfo> tensors = {{"w", {10, 10}}};
    GradientSync sync(*ranks[r], *backend, tensors, options);
    std::vector<float> g(100);
    g[17] = 3e38F;
    sync.begin(0);
    sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
    EXPECT_FALSE(sync.finish().committed);
    EXPECT_EQ(sync.save().residual[17], 3e38F);  // nothing finite is lost
  });
}

}  // namespace
}  // namespace sluice::testing::machines_test
