// Buckets that the host selects although their gradients are on a device.

#include <atomic>

#include "fake_device.h"
#include "refusal.h"
#include "sluice/core/half.h"
#include "sync/sync_support.h"

namespace sluice::testing::offload_test {
namespace {

// All that are not the host.
std::vector<std::string> devices() {
  std::vector<std::string> names = device_and_linked_names();
  std::erase_if(names,
                [](const auto& name) { return name.starts_with("cpu"); });
  return names;
}

// What a rank has after each step.
struct Trained {
  std::vector<std::vector<float>> means;
  std::vector<std::vector<float>> residuals;
  GradientSync::State state;
};

// By rank. `plans`: the one of each step, the last one for all others.
std::vector<Trained> train(const Scenario& job, const std::vector<Plan>& plans,
                           Backend* host = nullptr) {
  auto ranks = make_thread_ranks(job.ranks);
  LinkHub hub;
  std::vector<Trained> out(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    const auto link = make_link(job.backend, hub, *ranks[r], *backend);
    SyncOptions options;
    options.plan = plans[0];
    options.link = link.get();
    options.host = host;
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < job.steps; ++step) {
      if (step > 0 && step < plans.size()) sync.replan(plans[step]);
      EXPECT_TRUE(device.run(sync, step, gradients_of(r, step)).committed);
      out[r].means.push_back(device.get());
      out[r].residuals.push_back(sync.save().residual);
    }
    out[r].state = sync.save();
  });
  return out;
}

std::vector<Trained> train(const Scenario& job) {
  return train(job, {plan_of(job)});
}

// Laws 1 and 2, step by step.
void expect_law(const Scenario& job, const std::vector<Trained>& ranks) {
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    std::vector<double> owed(total_size());
    for (std::size_t r = 0; r < job.ranks; ++r) {
      EXPECT_EQ(ranks[r].means[step], ranks[0].means[step]);
      const std::vector<float> g = flat(gradients_of(r, step));
      for (std::size_t j = 0; j < owed.size(); ++j) {
        owed[j] += double(g[j]) - double(ranks[r].residuals[step][j]);
        if (step > 0) owed[j] += double(ranks[r].residuals[step - 1][j]);
      }
    }
    for (std::size_t j = 0; j < owed.size(); ++j) {
      const double delivered =
          double(job.ranks) * double(ranks[0].means[step][j]);
      ASSERT_NEAR(delivered, owed[j], 1e-5) << "step " << step << " at " << j;
    }
  }
}

using Case = std::tuple<std::string, std::string, std::string>;
const std::vector<Case> kCases = {{"layerwise", "topk", "auto"},
                                  {"single", "adtopk", "balanced"},
                                  {"layerwise", "sidco-p", "allgather"},
                                  {"size=3k", "topk", "oktopk"},
                                  {"layerwise", "topk", "sparcml-rd"}};

class Offload : public ::testing::TestWithParam<std::string> {};

TEST_P(Offload, LosesNothing) {
  for (const Case& c : kCases) {
    for (std::size_t size = 1; size <= 8; ++size) {
      Scenario job;
      std::tie(job.plan, job.sparsifier, job.collective) = c;
      job.backend = GetParam();
      job.ranks = size;
      job.offload = true;
      expect_law(job, train(job));
    }
  }
}

// Exact rules select the same everywhere, and lists are added in one order.
TEST_P(Offload, ChangesNoBitsOfExactRules) {
  for (const std::string sparsifier : {"topk", "adtopk", "tile"}) {
    for (const std::string feedback : {"residual", "dgc"}) {
      for (const std::size_t size : {1, 2, 5}) {
        Scenario job;
        job.backend = GetParam();
        job.sparsifier = sparsifier;
        job.feedback = feedback;
        job.collective = "allgather";
        job.ranks = size;
        const auto here = train(job);
        job.offload = true;
        const auto there = train(job);
        for (std::size_t r = 0; r < size; ++r) {
          EXPECT_EQ(there[r].means, here[r].means) << sparsifier;
          EXPECT_EQ(there[r].residuals, here[r].residuals) << sparsifier;
          EXPECT_EQ(there[r].state.momentum, here[r].state.momentum);
        }
      }
    }
  }
}

// From the device to the host and back, residuals and momenta with them: as if
// nothing had moved.
TEST_P(Offload, PlansMoveResidualsAndMomenta) {
  for (const std::string feedback : {"residual", "dgc"}) {
    Scenario job;
    job.backend = GetParam();
    job.feedback = feedback;
    job.collective = "allgather";
    job.steps = 7;
    const Plan here = plan_of(job);
    job.offload = true;
    const Plan half = plan_of(job);
    Plan all = half;
    for (BucketPlan& b : all.buckets) b.device = b.dense() ? "" : "cpu";
    const auto stayed = train(job, {here});
    const auto moved = train(job, {here, half, all, here, here, all, half});
    for (std::size_t r = 0; r < job.ranks; ++r) {
      EXPECT_EQ(moved[r].means, stayed[r].means) << feedback;
      EXPECT_EQ(moved[r].residuals, stayed[r].residuals) << feedback;
      EXPECT_EQ(moved[r].state.momentum, stayed[r].state.momentum);
    }
  }
}

// Also to other buckets, dense ones included.
TEST_P(Offload, LosesNothingOverAnyPlans) {
  Scenario job;
  job.backend = GetParam();
  job.steps = 6;
  job.offload = true;
  const auto plan = [&](const std::string& name, const std::string& sparsifier,
                        const std::string& collective) {
    Scenario other = job;
    other.plan = name;
    other.sparsifier = sparsifier;
    other.collective = collective;
    return plan_of(other);
  };
  const std::vector<Plan> plans = {plan("layerwise", "topk", "balanced"),
                                   plan("single", "adtopk", "allgather"),
                                   plan("layerwise", "none", "dense"),
                                   plan("single", "topk", "oktopk"),
                                   plan("layerwise", "none", "dense-bf16"),
                                   plan("size=3k", "topk", "allgather")};
  expect_law(job, train(job, plans));
}

// Checkpoints know nothing of devices.
TEST_P(Offload, SavesOnOneLayoutAndLoadsOnAnother) {
  Scenario job;
  job.backend = GetParam();
  job.feedback = "dgc";
  job.collective = "allgather";
  job.steps = 6;
  const auto whole = train(job);
  for (const bool offload : {false, true}) {
    std::vector<GradientSync::State> saved(job.ranks);
    for (const bool second : {false, true}) {
      auto ranks = make_thread_ranks(job.ranks);
      LinkHub hub;
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend(job.backend);
        const auto link = make_link(job.backend, hub, *ranks[r], *backend);
        Scenario part = job;
        part.offload = offload != second;
        SyncOptions options;
        options.plan = plan_of(part);
        options.link = link.get();
        DeviceGradients device(*backend);
        GradientSync sync(*ranks[r], *backend, kTensors, options);
        if (second) sync.load(saved[r]);
        for (std::uint64_t step = second ? 3 : 0; step < (second ? 6U : 3U);
             ++step) {
          device.run(sync, step, gradients_of(r, step));
          EXPECT_EQ(device.get(), whole[r].means[step]) << step;
        }
        saved[r] = sync.save();
      });
    }
    EXPECT_EQ(saved[0].residual, whole[0].state.residual);
    EXPECT_EQ(saved[0].momentum, whole[0].state.momentum);
  }
}

// Drops one of what rank 0 gives, so many after it was armed; below zero it
// counts them.
struct Trap {
  std::atomic<int> left{-1};

  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t) {
    auto& self = *static_cast<Trap*>(context);
    const bool hit = from == 0 && self.left.fetch_sub(1) == 0;
    return hit ? Fate::kDrop : Fate::kDeliver;
  }
};

// Law 4, twice in a row: the residual then holds both gradients.
TEST_P(Offload, TwoFailedStepsLoseNothing) {
  constexpr std::size_t kRanks = 3;
  int failures = 0;
  int messages = 1;  // of a step
  for (int lost = 0; lost < messages; ++lost) {
    ManualClock clock;
    Trap trap;
    auto ranks = make_thread_ranks(kRanks, {&clock, &Trap::decide, &trap});
    LinkHub hub(&Trap::decide, &trap);
    std::vector<std::vector<double>> owed(kRanks);
    std::vector<std::vector<float>> residuals(kRanks);
    std::vector<double> delivered(total_size());
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend(GetParam());
      const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
      SyncOptions options;
      options.plan = plan_of({.collective = "allgather", .offload = true});
      options.link = link.get();
      options.network = Network{};
      DeviceGradients device(*backend);
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      owed[r].resize(total_size());
      for (std::uint64_t attempt = 0; attempt < 4; ++attempt) {
        const Gradients g = gradients_of(r, attempt);
        const bool faulty = attempt == 1 || attempt == 2;
        if (r == 0) trap.left = faulty ? lost : -1;
        bool finished = false;
        try {
          finished = device.run(sync, attempt, g).committed;
          if (r == 0 && attempt == 0) messages = -1 - trap.left;
          ranks[r]->barrier(100);
        } catch (const CommError&) {
        }
        if (r == 0) trap.left = -1;
        const bool committed = was_committed(finished, sync.recover());
        if (r == 0 && !committed) ++failures;
        const std::vector<float> mean = device.get();
        std::size_t j = 0;
        for (const TensorInfo& t : kTensors) {
          const bool dense = t.dims.size() < 2;
          for (std::size_t i = 0; i < size_of(t); ++i, ++j) {
            // The caller has a dense gradient again.
            if (!dense || committed) owed[r][j] += double(flat(g)[j]);
            if (r == 0 && committed) delivered[j] += kRanks * double(mean[j]);
          }
        }
      }
      residuals[r] = sync.save().residual;
    });
    for (std::size_t j = 0; j < delivered.size(); ++j) {
      double have = delivered[j];
      double all = 0;
      for (std::size_t r = 0; r < kRanks; ++r) {
        have += double(residuals[r][j]);
        all += owed[r][j];
      }
      ASSERT_NEAR(have, all, 1e-5) << "message " << lost << " at " << j;
    }
  }
  // Of the last ones of a vote only some ranks know that they were lost.
  EXPECT_GT(failures, messages);
}

// Law 7.
TEST_P(Offload, SeesGradientsThatAreNotFinite) {
  auto ranks = make_thread_ranks(2);
  LinkHub hub;
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(GetParam());
    const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
    SyncOptions options;
    options.plan = plan_of({.offload = true});
    options.link = link.get();
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    Gradients g = gradients_of(r, 0);
    const std::size_t t = options.plan.buckets[0].tensors[0];
    ASSERT_EQ(options.plan.buckets[0].device, "cpu");
    if (r == 1) g[t][2] = NAN;
    const SyncReport report = device.run(sync, 0, g);
    EXPECT_FALSE(report.committed);
    EXPECT_EQ(report.nonfinite, r == 1 ? 1U : 0U);
    const GradientSync::State state = sync.save();
    EXPECT_TRUE(std::all_of(state.residual.begin(), state.residual.end(),
                            [](float v) { return std::isfinite(v); }));
    EXPECT_TRUE(device.run(sync, 1, gradients_of(r, 1)).committed);
  });
}

// As on the device, whatever gradients are.
TEST_P(Offload, TakesAnyTypeAndStride) {
  const std::vector<TensorInfo> tensors = {{"w", {12, 10}}};
  constexpr std::size_t kAll = 120;
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    std::vector<std::byte> results[2];
    std::vector<float> residuals[2];
    for (const bool offload : {false, true}) {
      auto ranks = make_thread_ranks(2);
      LinkHub hub;
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend(GetParam());
        const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
        SyncOptions options;
        BucketPlan bucket;
        bucket.tensors = {0};
        bucket.density = 0.2;
        bucket.collective = "allgather";
        bucket.device = offload ? "cpu" : "";
        options.plan.buckets = {bucket};
        options.link = link.get();
        GradientSync sync(*ranks[r], *backend, tensors, options);
        // Small whole numbers, which all types have.
        std::vector<float> wide(kAll);
        std::vector<std::uint16_t> narrow(kAll);
        for (std::size_t i = 0; i < kAll; ++i) {
          wide[i] = static_cast<float>(mix64(r, i) % 64) - 32;
          narrow[i] =
              dtype == DType::kBf16 ? to_bf16(wide[i]) : to_fp16(wide[i]);
        }
        const bool full = dtype == DType::kFp32;
        const auto bytes = full ? std::as_bytes(std::span(wide))
                                : std::as_bytes(std::span(narrow));
        auto stream = backend->make_stream();
        const Buffer data = backend->allocate(bytes.size());
        backend->copy_in(*stream, data.data(), bytes);
        TensorView view = contiguous_view(data.data(), tensors[0].dims, dtype);
        view.strides[0] = 1;  // column by column
        view.strides[1] = 12;
        sync.begin(0);
        sync.ready(0, view, backend->record(*stream));
        EXPECT_EQ(sync.finish().selected, 24U);
        if (r != 0) return;
        std::vector<std::byte>& out = results[offload ? 1 : 0];
        out.resize(bytes.size());
        backend->copy_out(*stream, out, data.data());
        backend->wait(backend->record(*stream));
        residuals[offload ? 1 : 0] = sync.save().residual;
      });
    }
    EXPECT_EQ(results[1], results[0]);
    EXPECT_EQ(residuals[1], residuals[0]);
  }
}

TEST_P(Offload, TellsWhenABucketHasBeenApplied) {
  auto ranks = make_thread_ranks(2);
  LinkHub hub;
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(GetParam());
    const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
    SyncOptions options;
    options.plan = plan_of({.offload = true});
    options.link = link.get();
    std::vector<int> told(options.plan.buckets.size(), 0);
    options.applied = [&](std::size_t bucket, const Event& event) {
      backend->wait(event);
      ++told[bucket];
    };
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    DeviceGradients(*backend).run(sync, 0, gradients_of(r, 0));
    EXPECT_EQ(told, std::vector<int>(told.size(), 1));
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, Offload, ::testing::ValuesIn(devices()),
                         [](const auto& d) { return safe_name(d.param); });

// The host waits for the device once more per bucket, and no list of the
// device's leaves it but the gradient.
TEST(OffloadOnADevice, WaitsOncePerBucket) {
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    FakeDeviceLog log;
    auto backend = make_fake_device_backend({1, "portable"}, &log);
    SyncOptions options;
    options.plan = plan_of({.plan = "single", .collective = "allgather"});
    options.plan.buckets[0].device = "cpu";
    const std::size_t buckets = options.plan.buckets.size();
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < 4; ++step) {
      device.set(gradients_of(r, step));
      const std::uint64_t waits = log.waits;
      const std::uint64_t bytes = log.bytes_out;
      sync.begin(step);
      device.announce_all(sync);
      sync.finish();
      // One to select, the dense one's bytes, what was found and the end.
      EXPECT_LE(log.waits - waits, buckets + 2);
      EXPECT_LE(log.bytes_out - bytes, total_size() * sizeof(float) + 64);
    }
  });
}

// On a device that is the host it means nothing: not another bucket, even.
TEST(OffloadOnTheHost, ChangesNothing) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  DeviceGradients device(*backend);
  SyncOptions options;
  options.plan = plan_of({.sparsifier = "sidco-e"});
  GradientSync sync(*ranks[0], *backend, kTensors, options);
  device.run(sync, 0, gradients_of(0, 0));
  const std::size_t bytes = sync.memory_bytes();
  const auto rules = sync.save().rules;
  const Plan there = plan_of({.sparsifier = "sidco-e", .offload = true});
  sync.replan(there);
  EXPECT_EQ(sync.plan(), there);
  EXPECT_EQ(sync.memory_bytes(), bytes);
  EXPECT_EQ(sync.save().rules, rules);
  EXPECT_TRUE(device.run(sync, 1, gradients_of(0, 1)).committed);
}

TEST(OffloadMemory, IsCountedAndGivenBack) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("fake");
  SyncOptions options;
  options.plan = plan_of({.plan = "single"});
  GradientSync sync(*ranks[0], *backend, kTensors, options);
  const std::size_t before = sync.memory_bytes();
  Plan there = options.plan;
  there.buckets[0].device = "cpu";
  std::size_t elements = 0;
  for (const std::size_t t : there.buckets[0].tensors) {
    elements += size_of(kTensors[t]);
  }
  sync.replan(there);
  // Another arena; the gradients once more on the device and on the host.
  EXPECT_EQ(sync.memory_bytes() - before,
            sizeof(float) * (total_size() + 2 * elements));
  sync.replan(options.plan);
  EXPECT_EQ(sync.memory_bytes(), before);
}

TEST(OffloadHost, MayBeTheCallers) {
  auto two = make_cpu_backend({2, ""});
  Scenario job{.collective = "allgather", .backend = "fake", .offload = true};
  const auto own = train(job);
  const auto given = train(job, {plan_of(job)}, two.get());
  EXPECT_EQ(given[0].means, own[0].means);
  auto device = make_backend("fake");
  auto ranks = make_thread_ranks(1);
  SyncOptions options;
  options.plan = plan_of(job);
  options.host = device.get();
  const std::string said =
      refusal([&] { GradientSync(*ranks[0], *device, kTensors, options); });
  EXPECT_EQ(
      said.substr(0, 67),
      "[sync] buckets with device cpu need a backend of the host's, got 'f")
      << said;
}

}  // namespace
}  // namespace sluice::testing::offload_test
