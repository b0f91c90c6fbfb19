// What goes wrong in a step, and what is left of it.

#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

// Law 4 for all buckets: whichever message is lost, the gradient of a sparse
// tensor is in the residual, that of a dense one where it was, on every rank.
void expect_no_loss(std::size_t pieces) {
  for (const std::string& backend_name : device_and_linked_names()) {
    // Of rank 0, in the step: frames, two of them of the vote, or what it gives
    // to its link.
    const bool linked = is_linked(backend_name);
    const std::uint64_t messages = linked ? 4 * pieces : 10 * pieces + 2;
    for (std::uint64_t lost = 0; lost < messages; ++lost) {
      ManualClock clock;
      auto ranks = make_thread_ranks(
          3, {&clock, linked ? nullptr : &drop_number, &lost});
      LinkHub hub(&drop_number, &lost);
      run_ranks(ranks, [&](std::size_t r) {
        Scenario job;
        job.plan = "layerwise";
        job.collective = "allgather";
        job.pieces = pieces;
        auto backend = make_backend(backend_name);
        DeviceGradients device(*backend);
        const std::vector<float> g = flat(gradients_of(r, 0));
        device.set(gradients_of(r, 0));
        SyncOptions options;
        options.plan = plan_of(job);
        const auto link = make_link(backend_name, hub, *ranks[r], *backend);
        options.link = link.get();
        GradientSync sync(*ranks[r], *backend, kTensors, options);
        sync.begin(0);
        device.announce_all(sync);
        bool finished = false;
        try {
          finished = sync.finish().committed;
          ranks[r]->barrier(100);
        } catch (const CommError&) {
        }
        const bool committed = was_committed(finished, sync.recover());
        const std::vector<float> residual = sync.save().residual;
        const std::vector<float> after = device.get();
        std::size_t j = 0;
        for (const TensorInfo& t : kTensors) {
          const bool dense = t.dims.size() < 2;
          for (std::size_t i = 0; i < size_of(t) && !committed; ++i, ++j) {
            ASSERT_EQ(dense ? after[j] : residual[j], g[j])
                << "message " << lost << " tensor " << t.name;
          }
        }
      });
    }
  }
}

TEST(SyncFaults, AFailedStepLosesNoGradient) { expect_no_loss(1); }
TEST(SyncFaults, AFailedStepLosesNoGradientInPieces) { expect_no_loss(3); }

// Law 4 where backward threw on one rank: the others hear why, what was
// announced is kept, and all go on with the same step.
TEST(SyncFaults, AStepThatIsGivenUpLosesNothing) {
  for (const std::string& backend_name : device_and_linked_names()) {
    ManualClock clock;
    auto ranks = make_thread_ranks(3, {&clock, nullptr, nullptr});
    LinkHub hub(nullptr, nullptr);
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend(backend_name);
      DeviceGradients device(*backend);
      const Gradients g = gradients_of(r, 0);
      device.set(g);
      SyncOptions options;
      options.plan = plan_of({.collective = "allgather"});
      const auto link = make_link(backend_name, hub, *ranks[r], *backend);
      options.link = link.get();
      GradientSync sync(*ranks[r], *backend, kTensors, options);
      sync.begin(0);
      if (r == 1) {
        device.announce(sync, 2);
        sync.give_up("backward threw");
      } else {
        device.announce_all(sync);
        try {
          sync.finish();
          ADD_FAILURE() << "rank " << r << " must not finish the step";
        } catch (const CommError& e) {
          EXPECT_NE(std::string(e.what()).find("backward threw"),
                    std::string::npos)
              << e.what();
          EXPECT_EQ(e.suspect(), 1);
        }
      }
      EXPECT_EQ(sync.recover(), Recovered::kFailed);
      const std::vector<float> residual = sync.save().residual;
      std::size_t j = 0;
      for (std::size_t t = 0; t < kTensors.size(); ++t) {
        const bool kept = kTensors[t].dims.size() > 1 && (r != 1 || t == 2);
        for (std::size_t i = 0; i < size_of(kTensors[t]); ++i, ++j) {
          ASSERT_EQ(residual[j], kept ? g[t][i] : 0) << kTensors[t].name;
        }
      }
      device.set(g);
      sync.begin(0);
      device.announce_all(sync);
      EXPECT_TRUE(sync.finish().committed);
    });
  }
}

// A link that cannot be made anew fails the recovery on all ranks, and decides
// nothing: the next one ends all doubt, whatever was lost.
TEST(SyncFaults, ARecoveryMayFailAtItsLink) {
  constexpr std::size_t kRanks = 3;
  // Of rank 0: what it gives to its link, or frames, which are of the vote.
  for (const bool of_link : {true, false}) {
    for (std::uint64_t lost = 0; lost < 4; ++lost) {
      ManualClock clock;
      auto ranks = make_thread_ranks(
          kRanks, {&clock, of_link ? nullptr : &drop_number, &lost});
      LinkHub hub(of_link ? &drop_number : nullptr, &lost);
      hub.refuse_rebuild();
      std::vector<int> committed(kRanks, -1);
      std::vector<std::vector<float>> last(kRanks);
      run_ranks(ranks, [&](std::size_t r) {
        auto backend = make_backend("fake");
        StagedLink link(hub, *ranks[r], *backend);
        DeviceGradients device(*backend);
        SyncOptions options;
        options.plan = plan_of({.collective = "allgather"});
        options.link = &link;
        GradientSync sync(*ranks[r], *backend, kTensors, options);
        bool finished = false;
        try {
          finished = device.run(sync, 0, gradients_of(r, 0)).committed;
          ranks[r]->barrier(100);
        } catch (const CommError&) {
        }
        EXPECT_THROW(sync.recover(), CommError);
        committed[r] = was_committed(finished, sync.recover()) ? 1 : 0;
        if (committed[r] == 0) {
          EXPECT_EQ(sync.save().residual[5], gradients_of(r, 0)[0][5]);
        }
        EXPECT_TRUE(device.run(sync, 1, gradients_of(r, 1)).committed);
        last[r] = device.get();
      });
      for (std::size_t r = 1; r < kRanks; ++r) {
        EXPECT_EQ(committed[r], committed[0]) << of_link << " " << lost;
        EXPECT_EQ(last[r], last[0]) << of_link << " " << lost;
      }
    }
  }
}

// All ranks end at once, and say why.
TEST(SyncFaults, ANonFiniteGradientStopsAllRanks) {
  ManualClock clock;
  auto ranks = make_thread_ranks(3, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(3);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plan_of({});
    options.nonfinite = NonFinite::kStop;
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    Gradients g = gradients_of(r, 0);
    if (r == 1) g[0][3] = NAN;
    try {
      device.run(sync, 7, g);
    } catch (const std::runtime_error& e) {
      errors[r] = e.what();
    }
    // Rolled back, so that nothing finite is lost.
    EXPECT_EQ(sync.save().residual[5], flat(g)[5]);
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 1 stopped the job"), std::string::npos) << error;
    EXPECT_NE(error.find("1 entries that are not in step 7"), std::string::npos)
        << error;
  }
  EXPECT_EQ(clock.now(), Engine::Clock::time_point());  // nobody waited
}

// Sums that overflow are seen, whatever carries them. (A mean of lists is made
// of shares, which do not.)
TEST(SyncFaults, SumsThatOverflowAreSkippedEverywhere) {
  for (const std::string collective :
       {"balanced", "sparcml-rd", "gtopk-tree", "oktopk", "dense"}) {
    auto ranks = make_thread_ranks(3);
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_backend("cpu/portable");
      SyncOptions options;
      BucketPlan bucket;
      bucket.tensors = {0};
      bucket.collective = collective;
      if (collective == "dense") bucket.sparsifier = "none";
      options.plan.buckets = {bucket};
      const std::vector<TensorInfo> tensors = {{"w", {10, 10}}};
      GradientSync sync(*ranks[r], *backend, tensors, options);
      std::vector<float> g(100);
      g[17] = 3e38F;
      sync.begin(0);
      sync.ready(0, contiguous_view(g.data(), tensors[0].dims));
      try {
        const SyncReport report = sync.finish();
        EXPECT_FALSE(report.committed) << collective;
        EXPECT_GT(report.nonfinite, 0U) << collective;
      } catch (const CommError& e) {
        ADD_FAILURE() << collective << ": " << e.what();
      }
    });
  }
}

// What the selecting thread cannot do is told to the others.
TEST(SyncFaults, AFailureToSelectReachesAllRanks) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(2);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    DeviceGradients device(*backend);
    device.set(gradients_of(r, 0));
    SyncOptions options;
    options.plan = plan_of({});
    for (BucketPlan& b : options.plan.buckets) b.density.reset();
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    // A density that no rule takes, on one rank alone.
    sync.begin(0, {r == 1 ? 5.0 : 0.1, 0.1});
    device.announce_all(sync);
    try {
      sync.finish();
    } catch (const std::exception& e) {
      errors[r] = e.what();
    }
  });
  EXPECT_NE(errors[0].find("rank 1 gave up in step 0: "), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[0].find("density"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("density"), std::string::npos) << errors[1];
  EXPECT_EQ(clock.now(), Engine::Clock::time_point());
}

// A decision that one rank did not hear, and then a step that fails: what the
// others heard must still reach it, or collectives would learn differently.
TEST(SyncFaults, ALostDecisionIsMadeUpForAfterTheNextFailure) {
  for (const std::string collective : {"balanced", "auto"}) {
    // Rank 0's messages of a step; its last one is the decision to rank 2.
    const auto run = [&](std::uint64_t lost, bool faulty) {
      ManualClock clock;
      auto ranks = make_thread_ranks(3, {&clock, &drop_number, &lost});
      std::vector<std::uint64_t> sent(2, 0);
      std::vector<std::vector<float>> last(3);
      run_ranks(ranks, [&](std::size_t r) {
        Scenario job;
        job.plan = "single";
        job.collective = collective;
        auto backend = make_backend("cpu/portable");
        DeviceGradients device(*backend);
        SyncOptions options;
        options.plan = plan_of(job);
        GradientSync sync(*ranks[r], *backend, kTensors, options);
        for (std::uint64_t step = 0; step < 6; ++step) {
          try {
            const auto report = device.run(sync, step, gradients_of(r, step));
            if (r == 0 && step < 2) sent[step] = report.traffic.messages_sent;
          } catch (const CommError&) {
            EXPECT_TRUE(faulty) << "step " << step;
            // Whoever is one step ahead takes it up again.
            if (sync.recover() == Recovered::kFailed) --step;
          }
        }
        last[r] = device.get();
      });
      EXPECT_EQ(last[1], last[0]) << collective;
      EXPECT_EQ(last[2], last[0]) << collective;
      return sent;
    };
    const std::vector<std::uint64_t> sent = run(~std::uint64_t{0}, false);
    run(sent[0] + sent[1] - 1, true);
  }
}

// A sync that goes away in the middle of a step takes its threads with it.
TEST(SyncFaults, AStepMayBeGivenUp) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  DeviceGradients device(*backend);
  device.set(gradients_of(0, 0));
  SyncOptions options;
  options.plan = plan_of({});
  for (std::size_t announced = 0; announced < kTensors.size(); ++announced) {
    GradientSync sync(*ranks[0], *backend, kTensors, options);
    sync.begin(0);
    for (std::size_t t = 0; t < announced; ++t) device.announce(sync, t);
  }
}

// A dense collective may be written as any other spec.
TEST(GradientSync, TakesAnySpecOfADenseCollective) {
  for (const std::string spec :
       {R"({"name": "dense", "by": "ring"})", "dense:by=ring", "dense-bf16"}) {
    Scenario job;
    job.sparsifier = "none";
    job.collective = spec;
    auto ranks = make_thread_ranks(1);
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    options.plan = plan_of(job);
    EXPECT_NO_THROW(GradientSync(*ranks[0], *backend, kTensors, options))
        << spec;
    options.plan.buckets[0].collective = "balanced";
    EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
                 std::invalid_argument);
  }
}

}  // namespace
}  // namespace sluice::testing
