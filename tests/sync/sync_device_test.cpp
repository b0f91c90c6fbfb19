// GradientSync in device terms: types and strides of gradients, what the host
// is asked for, other plans between steps.

#include "fake_device.h"
#include "sluice/core/half.h"
#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

// What must be sized before it is sent, the bytes themselves, and one small
// read per step; whatever the number of tensors.
TEST(SyncOnADevice, AsksTheHostOnlyForWhatIsSent) {
  for (const std::string plan : {"single", "layerwise"}) {
    auto ranks = make_thread_ranks(2);
    run_ranks(ranks, [&](std::size_t r) {
      FakeDeviceLog log;
      auto backend = make_fake_device_backend({1, "portable"}, &log);
      Scenario job;
      job.plan = plan;
      job.collective = "allgather";
      SyncOptions options;
      options.plan = plan_of(job);
      std::uint64_t sparse = 0;
      std::uint64_t dense = 0;
      for (const BucketPlan& b : options.plan.buckets) {
        (b.sparsifier == "none" ? dense : sparse) += 1;
      }
      DeviceGradients device(*backend);
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      for (std::uint64_t step = 0; step < 4; ++step) {
        device.set(gradients_of(r, step));
        const std::uint64_t before = log.waits;
        sync.begin(step);
        device.announce_all(sync);
        sync.finish();
        // Size and bytes of each sparse bucket, the bytes of each dense one,
        // what was found, and the end of the step.
        if (step > 1) {
          EXPECT_LE(log.waits - before, 2 * sparse + dense + 2) << plan;
        }
      }
    });
  }
}

// With a link not even that: one small read per step, and its end.
TEST(SyncOnADevice, AsksTheHostOncePerStepWithALink) {
  for (const std::string plan : {"single", "layerwise"}) {
    auto ranks = make_thread_ranks(3);
    LinkHub hub;
    run_ranks(ranks, [&](std::size_t r) {
      FakeDeviceLog log;
      auto backend = make_fake_device_backend({1, "portable"}, &log);
      StagedLink link(hub, *ranks[r], *backend);
      Scenario job;
      job.plan = plan;
      job.collective = "allgather";
      SyncOptions options;
      options.plan = plan_of(job);
      options.link = &link;
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
        if (step < 2) continue;  // buffers grow
        EXPECT_LE(log.waits - waits, 2U) << plan;
        EXPECT_LT(log.bytes_out - bytes, 600 * buckets) << plan;
      }
    });
  }
}

// From the first step on, whatever the number of ranks.
TEST(SyncOnADevice, BalancedStaysOnDevicesThatHaveALink) {
  auto ranks = make_thread_ranks(4);
  LinkHub hub;
  run_ranks(ranks, [&](std::size_t r) {
    FakeDeviceLog log;
    auto backend = make_fake_device_backend({1, "portable"}, &log);
    StagedLink link(hub, *ranks[r], *backend);
    SyncOptions options;
    options.plan = plan_of({.plan = "single", .collective = "balanced"});
    options.link = &link;
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::uint64_t bytes = log.bytes_out;
      device.run(sync, step, gradients_of(r, step));
      EXPECT_LT(log.bytes_out - bytes, 600 * options.plan.buckets.size());
    }
  });
}

// What one rank has grew past the slots that the step before suggests: all
// ranks go a second round, and nobody can tell from the result.
TEST(SyncOnADevice, SendsAgainWhatDidNotFitItsSlot) {
  constexpr std::uint64_t kLarge = 3;  // the step
  constexpr std::uint64_t kSteps = 5;
  struct Trained {
    std::vector<std::vector<float>> means;
    std::vector<std::uint64_t> messages;
  };
  const auto train = [](const std::string& name,
                        const std::string& collective) {
    auto ranks = make_thread_ranks(2);
    LinkHub hub;
    std::vector<Trained> out(2);
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend(name);
      const auto link = make_link(name, hub, *ranks[r], *backend);
      SyncOptions options;
      // No residuals: they would grow from step to step.
      options.plan = plan_of({.plan = "single",
                              .sparsifier = "threshold:value=2",
                              .feedback = "none",
                              .collective = collective});
      options.link = link.get();
      DeviceGradients device(*backend);
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        Gradients g = gradients_of(r, step);
        for (auto& tensor : g) {
          for (float& v : tensor) v *= step == kLarge && r == 1 ? 2.0F : 1.0F;
        }
        const SyncReport report = device.run(sync, step, g);
        EXPECT_TRUE(report.committed);
        out[r].means.push_back(device.get());
        out[r].messages.push_back(report.traffic.messages_sent);
      }
    });
    EXPECT_EQ(out[0].means, out[1].means) << name;
    return out;
  };
  for (const std::string collective : {"allgather", "balanced"}) {
    for (const std::string& device : device_names()) {
      const auto staged = train(device, collective);
      const auto linked = train(device + "+link", collective);
      for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(linked[r].means, staged[r].means) << device << collective;
        const auto& messages = linked[r].messages;
        EXPECT_GT(messages[kLarge], messages[kLarge - 1]) << device;
        EXPECT_EQ(messages[kLarge + 1], messages[kLarge - 1]) << device;
      }
    }
  }
}

// A selection that is not asked for stays on the device: only coded bytes,
// reports and dense tensors leave it.
TEST(SyncOnADevice, TakesNoListsToTheHost) {
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    FakeDeviceLog log;
    auto backend = make_fake_device_backend({1, "portable"}, &log);
    const std::vector<TensorInfo> tensors = {{"w", {400, 500}}};
    SyncOptions options;
    BucketPlan bucket;
    bucket.tensors = {0};
    bucket.collective = "allgather";
    options.plan.buckets = {bucket};
    GradientSync sync(*ranks[r], *backend, tensors, options);
    auto stream = backend->make_stream();
    const Buffer data = backend->allocate(200000 * sizeof(float));
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> g = gaussian(200000, step + 10 * r);
      backend->copy_in(*stream, data.data(), std::as_bytes(std::span(g)));
      const std::uint64_t before = log.bytes_out;
      ranks[r]->reset_traffic();
      sync.begin(step);
      sync.ready(0, contiguous_view(data.data(), tensors[0].dims),
                 backend->record(*stream));
      const SyncReport report = sync.finish();
      EXPECT_LT(log.bytes_out - before, report.traffic.bytes_sent + 500);
    }
  });
}

// Rows, one-value and two-bit forms reach the wire of a bucket of several
// tensors, one of them in another form: by the bytes that were sent.
TEST(GradientSync, SendsEveryTensorInItsOwnForm) {
  const std::vector<TensorInfo> tensors = {
      {"a", {512, 64}}, {"b", {300}}, {"c", {256, 64}}};
  constexpr std::size_t kAll = 512 * 64 + 300 + 256 * 64;
  struct Case {
    std::string sparsifier;
    double most;  // bytes per entry, headers apart
  };
  // 8.6 bits of index with Elias-Fano at 1 / 64, 6 in rows of 64.
  for (const Case& c :
       {Case{"redsync-quantized", 2}, Case{"tile:two_bit=true", 2.2},
        Case{"adtopk", 4 + 6.5 / 8}, Case{"topk", 4 + 9.0 / 8}}) {
    for (const std::string& backend_name : device_names()) {
      auto ranks = make_thread_ranks(2);
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend(backend_name);
        auto stream = backend->make_stream();
        SyncOptions options;
        BucketPlan bucket;
        bucket.tensors = {0, 1, 2};
        bucket.sparsifier = c.sparsifier;
        bucket.collective = "allgather";
        bucket.density = 1.0 / 64;
        options.plan.buckets = {bucket};
        GradientSync sync(*ranks[r], *backend, tensors, options);
        const Buffer data = backend->allocate(kAll * sizeof(float));
        const std::vector<float> g = gaussian(kAll, r + 1);
        backend->copy_in(*stream, data.data(), std::as_bytes(std::span(g)));
        const Event event = backend->record(*stream);
        sync.begin(0);
        std::size_t base = 0;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          sync.ready(
              t, contiguous_view(data.data<float>() + base, tensors[t].dims),
              event);
          base += size_of(tensors[t]);
        }
        const SyncReport report = sync.finish();
        EXPECT_LT(double(report.traffic.bytes_sent),
                  c.most * double(report.selected) + 450)
            << c.sparsifier << " " << report.selected;
      });
    }
  }
}

// Gradients of 16 bits and of any strides.
TEST(GradientSync, TakesAnyTypeAndStride) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kCols = 10;
  const std::vector<TensorInfo> tensors = {{"w", {kRows, kCols}}};
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const std::string sparsifier : {"topk", "none"}) {
      auto ranks = make_thread_ranks(2);
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend("cpu/portable");
        SyncOptions options;
        BucketPlan bucket;
        bucket.tensors = {0};
        bucket.sparsifier = sparsifier;
        bucket.density = 0.2;
        bucket.collective = sparsifier == "none" ? "dense" : "allgather";
        options.plan.buckets = {bucket};
        GradientSync sync(*ranks[r], *backend, tensors, options);
        // Column-major; small whole numbers, which all types have.
        std::vector<float> wide(kRows * kCols);
        std::vector<std::uint16_t> narrow(kRows * kCols);
        const auto value = [](std::size_t rank, std::size_t i, std::size_t j) {
          return static_cast<float>(static_cast<int>(mix64(rank, i, j) % 64)) -
                 32;
        };
        for (std::size_t i = 0; i < kRows; ++i) {
          for (std::size_t j = 0; j < kCols; ++j) {
            const float v = value(r, i, j);
            wide[j * kRows + i] = v;
            narrow[j * kRows + i] =
                dtype == DType::kBf16 ? to_bf16(v) : to_fp16(v);
          }
        }
        void* data = wide.data();
        if (dtype != DType::kFp32) data = narrow.data();
        TensorView view = contiguous_view(data, tensors[0].dims, dtype);
        view.strides[0] = 1;
        view.strides[1] = kRows;
        sync.begin(0);
        sync.ready(0, view);
        sync.finish();
        const std::vector<float> residual = sync.save().residual;
        for (std::size_t i = 0; i < kRows; ++i) {
          for (std::size_t j = 0; j < kCols; ++j) {
            const std::uint16_t half = narrow[j * kRows + i];
            const float mean = dtype == DType::kFp32   ? wide[j * kRows + i]
                               : dtype == DType::kBf16 ? from_bf16(half)
                                                       : from_fp16(half);
            if (sparsifier == "none") {
              ASSERT_EQ(mean, (value(0, i, j) + value(1, i, j)) / 2);
            } else if (mean == 0) {
              ASSERT_EQ(residual[i * kCols + j], value(r, i, j));
            }
          }
        }
      });
    }
  }
}

// Every bucket says once that it has been applied, and then it has been.
TEST(GradientSync, TellsWhenABucketHasBeenApplied) {
  for (const std::string name : {"fake", "fake+link"}) {
    for (const std::size_t pieces : {1, 3}) {
      auto ranks = make_thread_ranks(2);
      LinkHub hub;
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend(name);
        const auto link = make_link(name, hub, *ranks[r], *backend);
        SyncOptions options;
        options.plan = plan_of({.pieces = pieces});
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
  }
}

Plan plan_for(const std::string& plan, const std::string& sparsifier,
              const std::string& collective) {
  Scenario job;
  job.plan = plan;
  job.sparsifier = sparsifier;
  job.collective = collective;
  return plan_of(job);
}

class Replan : public ::testing::TestWithParam<std::string> {};

// Law 1 over a change of plan: what one plan left in the residuals another one
// delivers, dense buckets included.
TEST_P(Replan, LosesNothing) {
  const std::vector<Plan> plans = {
      plan_for("layerwise", "topk", "balanced"),
      plan_for("single", "adtopk", "allgather"),
      plan_for("layerwise", "none", "dense"),
      plan_for("size=3k", "topk", "oktopk"),
      plan_for("single", "none", "dense-bf16"),
      in_pieces(plan_for("layerwise", "topk", "balanced"), 3),
      in_pieces(plan_for("single", "none", "dense-bf16"), 4),
      in_pieces(plan_for("single", "adtopk", "oktopk"), 2),
      plan_for("layerwise", "topk", "balanced")};
  constexpr std::size_t kRanks = 3;
  auto ranks = make_thread_ranks(kRanks);
  LinkHub hub;
  const std::size_t n = total_size();
  std::vector<std::vector<double>> owed(kRanks, std::vector<double>(n));
  std::vector<std::vector<float>> residual(kRanks);
  std::vector<double> delivered(n);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(GetParam());
    const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plans[0];
    options.link = link.get();
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < 2 * plans.size(); ++step) {
      if (step % 2 == 0) sync.replan(plans[step / 2]);
      const Gradients g = gradients_of(r, step);
      EXPECT_TRUE(device.run(sync, step, g).committed);
      const std::vector<float> mean = device.get();
      const std::vector<float> flat_g = flat(g);
      for (std::size_t j = 0; j < n; ++j) {
        owed[r][j] += double(flat_g[j]);
        if (r == 0) delivered[j] += double(kRanks) * double(mean[j]);
      }
    }
    residual[r] = sync.save().residual;
  });
  for (std::size_t j = 0; j < n; ++j) {
    double have = delivered[j];
    double all = 0;
    for (std::size_t r = 0; r < kRanks; ++r) {
      have += double(residual[r][j]);
      all += owed[r][j];
    }
    ASSERT_NEAR(have, all, 1e-4) << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Replan,
                         ::testing::ValuesIn(device_and_linked_names()),
                         [](const auto& b) { return safe_name(b.param); });

// Momenta are each rank's own where gradients are sparse, and all alike where
// they are dense: u = m u + mean, with the mean of what the ranks had. What is
// left in the residuals is delivered once.
TEST_P(Replan, GoesFromSparseToDenseWithMomentum) {
  constexpr std::size_t kRanks = 3;
  for (const char* collective : {"dense", "dense-bf16"}) {
    auto ranks = make_thread_ranks(kRanks);
    LinkHub hub;
    std::vector<GradientSync::State> before(kRanks);
    std::vector<GradientSync::State> after(kRanks);
    std::vector<std::vector<float>> mean(kRanks);
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend(GetParam());
      const auto link = make_link(GetParam(), hub, *ranks[r], *backend);
      DeviceGradients device(*backend);
      Scenario job;
      job.feedback = "dgc:masking=false";
      SyncOptions options;
      options.plan = plan_of(job);
      options.link = link.get();
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      for (std::uint64_t step = 0; step < 3; ++step) {
        device.run(sync, step, gradients_of(r, step));
      }
      before[r] = sync.save();
      job.plan = "single";
      job.sparsifier = "none";
      job.collective = collective;
      sync.replan(plan_of(job));
      device.run(sync, 3, gradients_of(r, 3));
      mean[r] = device.get();
      after[r] = sync.save();
    });
    const double close = std::string(collective) == "dense" ? 1e-5 : 0.05;
    for (std::size_t j = 0; j < size_of(kTensors[0]); ++j) {
      double momentum = 0;
      double left = 0;
      for (std::size_t r = 0; r < kRanks; ++r) {
        momentum += (0.9 * double(before[r].momentum[j]) +
                     double(gradients_of(r, 3)[0][j])) /
                    kRanks;
        left += double(before[r].residual[j]) / kRanks;
        ASSERT_EQ(mean[r][j], mean[0][j]) << j;
        ASSERT_EQ(after[r].momentum[j], after[0].momentum[j]) << j;
      }
      ASSERT_NEAR(mean[0][j], momentum + left, close) << j;
      ASSERT_NEAR(after[0].momentum[j], momentum, close) << j;
    }
  }
}

TEST(Replan, RefusesWhatDoesNotFit) {
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plan_for("layerwise", "topk", "balanced");
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    // Every rank another one.
    EXPECT_THROW(
        sync.replan(plan_for(r == 0 ? "single" : "layerwise", "topk", "auto")),
        std::invalid_argument);
    Plan short_plan = options.plan;
    short_plan.buckets.pop_back();
    EXPECT_THROW(sync.replan(short_plan), std::invalid_argument);
    EXPECT_EQ(sync.plan(), options.plan);
    // And goes on as before.
    device.set(gradients_of(r, 0));
    sync.begin(0);
    EXPECT_THROW(sync.replan(options.plan), std::logic_error);
    device.announce_all(sync);
    EXPECT_TRUE(sync.finish().committed);
  });
}

}  // namespace
}  // namespace sluice::testing
