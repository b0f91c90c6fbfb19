// The whole walk of a gradient on live buckets: ranks as threads, gradients
// announced in any order, beside what a plain loop would give.

#include "sluice/codec/codec.h"
#include "sync/sync_runs.h"

namespace sluice::testing {
namespace {

// Plan, sparsifier and collective; on a backend.
using Way = std::tuple<std::string, std::string, std::string>;
class Sync : public ::testing::TestWithParam<std::tuple<Way, std::string>> {};

TEST_P(Sync, LosesNothingInAnyOrder) {
  const auto& [plan, sparsifier, collective] = std::get<0>(GetParam());
  for (const std::size_t size : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Scenario job;
    job.backend = std::get<1>(GetParam());
    job.plan = plan;
    job.sparsifier = sparsifier;
    job.collective = collective;
    job.ranks = size;
    const auto ranks = run(job);
    expect_law(ranks);
    EXPECT_TRUE(ranks[0][0].report.committed);
    EXPECT_EQ(
        ranks[0][0].report.sparse_elements + ranks[0][0].report.dense_elements,
        total_size());
  }
}

std::string case_name(const ::testing::TestParamInfo<Sync::ParamType>& c) {
  const Way& way = std::get<0>(c.param);
  return safe_name(std::get<0>(way) + "_" + std::get<1>(way) + "_" +
                   std::get<2>(way) + "_" + std::get<1>(c.param));
}

const std::vector<Way> kWays = {
    {"layerwise", "topk", "auto"},
    {"single", "topk", "balanced"},
    {"size=3k", "adtopk", "allgather"},
    {"single", "topk", "cltk"},
    {"single", "topk", "oktopk"},
    {"layerwise", "sidco-p", "sparcml-rd"},
    {"single", "tile:two_bit=true", "sparcml-split"},
    {"single", "none", "dense-bf16"},
    {"layerwise", "none", "dense"}};
// By a link, or through the host beside one.
const std::vector<Way> kLinkedWays = {
    {"layerwise", "topk", "auto"},       {"single", "topk", "balanced"},
    {"size=3k", "adtopk", "allgather"},  {"layerwise", "dgc", "allgather"},
    {"layerwise", "topk", "oktopk"},     {"single", "none", "dense-bf16"},
    {"layerwise", "none", "dense-bf16"}, {"layerwise", "none", "dense"}};

auto all_of(const std::vector<Way>& ways, const std::vector<std::string>& on) {
  return ::testing::Combine(::testing::ValuesIn(ways), ::testing::ValuesIn(on));
}
INSTANTIATE_TEST_SUITE_P(Plans, Sync, all_of(kWays, device_names()), case_name);
INSTANTIATE_TEST_SUITE_P(Linked, Sync, all_of(kLinkedWays, linked_names()),
                         case_name);

// Of lists; and with two ranks, which add in but one order, of dense sums.
TEST(GradientSync, ALinkChangesNoBits) {
  struct Case {
    Way way;
    std::size_t ranks;
  };
  for (const Case& c : {Case{{"layerwise", "topk", "allgather"}, 4},
                        Case{{"single", "sidco-p", "allgather"}, 3},
                        Case{{"single", "topk", "balanced"}, 2},
                        Case{{"layerwise", "none", "dense"}, 2}}) {
    for (const std::string device : {"cpu/portable", "fake"}) {
      Scenario job;
      std::tie(job.plan, job.sparsifier, job.collective) = c.way;
      job.ranks = c.ranks;
      job.backend = device;
      const auto staged = run(job);
      job.backend = device + "+link";
      const auto linked = run(job);
      for (std::size_t step = 0; step < job.steps; ++step) {
        const Step& a = linked[1][step];
        const Step& b = staged[1][step];
        EXPECT_EQ(a.residual, b.residual) << device;
        std::size_t j = 0;
        for (const TensorInfo& t : kTensors) {
          const bool same = c.ranks == 2 || t.dims.size() >= 2;
          for (std::size_t i = 0; i < size_of(t); ++i, ++j) {
            if (!same) continue;
            ASSERT_EQ(a.mean[j], b.mean[j]) << device << " " << j;
          }
        }
      }
    }
  }
}

TEST(GradientSync, DenseGivesTheMean) {
  Scenario job;
  job.sparsifier = "none";
  job.collective = "dense";
  const auto ranks = run(job);
  for (std::size_t j = 0; j < total_size(); ++j) {
    double sum = 0;
    for (const auto& rank : ranks) sum += double(rank[0].gradient[j]);
    ASSERT_NEAR(double(ranks[0][0].mean[j]), sum / 3, 1e-6);
  }
}

// DGC's momentum is in the selection; a tensor that is not selected from gets
// it after the sum.
TEST(GradientSync, DgcGivesDenseTensorsTheirMomentum) {
  for (const std::string& backend : device_names()) {
    for (const bool nesterov : {false, true}) {
      for (const std::size_t size : {1, 3}) {
        Scenario job;
        job.backend = backend;
        job.feedback = nesterov ? "dgc:nesterov=true" : "dgc";
        job.ranks = size;
        const auto ranks = run(job);
        const std::size_t at = size_of(kTensors[0]);  // a.bias
        for (std::size_t j = at; j < at + size_of(kTensors[1]); ++j) {
          double u = 0;
          for (std::size_t step = 0; step < job.steps; ++step) {
            double mean = 0;
            for (const auto& rank : ranks) {
              mean += double(rank[step].gradient[j]) / double(size);
            }
            u = nesterov ? 0.9 * (u + mean) : 0.9 * u + mean;
            ASSERT_NEAR(double(ranks[0][step].mean[j]), nesterov ? u + mean : u,
                        1e-5)
                << backend << " step " << step;
          }
        }
      }
    }
  }
}

// What c.weight sends of so many of its 50 rows, the others and all other
// tensors being zeros, on rank 0 of two.
SyncReport touch_rows(const Scenario& job, std::size_t touched) {
  auto ranks = make_thread_ranks(2);
  SyncReport report;
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    DeviceGradients device(*backend);
    SyncOptions options;
    options.plan = plan_of(job);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t step = 0; step < 3; ++step) {
      Gradients g;
      for (const TensorInfo& t : kTensors) g.emplace_back(size_of(t), 0.0F);
      const auto rows = gaussian(10 * touched, 10 * r + step);
      std::copy(rows.begin(), rows.end(), g.back().begin() + 70);
      const SyncReport last = device.run(sync, step, g);
      EXPECT_TRUE(last.committed);
      if (r == 0) report = last;
      const auto mean = device.get();
      for (std::size_t i = 0; i < total_size() - 500 + 70; ++i) {
        EXPECT_EQ(mean[i], 0);
      }
    }
  });
  return report;
}

TEST(GradientSync, RowsThatWereNotTouchedCostNothing) {
  for (const std::string& backend : device_names()) {
    for (const std::string sparsifier : {"topk", "adtopk", "randomk"}) {
      for (const auto& collective : collectives()) {
        Scenario job;
        job.backend = backend;
        job.plan = "single";
        job.sparsifier = sparsifier;
        job.collective = collective.name;
        SCOPED_TRACE(backend + " " + sparsifier + " " + job.collective);
        const SyncReport none = touch_rows(job, 0);
        const SyncReport some = touch_rows(job, 3);
        EXPECT_EQ(none.selected, 0U);
        EXPECT_GT(none.budget, 200U);
        EXPECT_TRUE(sparsifier != "adtopk" || some.selected == 3);
        EXPECT_LE(some.selected, 30U);
        if (job.collective != "allgather") continue;
        EXPECT_LE(some.traffic.bytes_sent,
                  none.traffic.bytes_sent +
                      Codec::max_bytes(some.selected, kTensors.size()));
      }
    }
  }
}

// What a collective cuts off returns to nobody where no residual is kept.
TEST(GradientSync, CountsWhatIsLostWhereNothingIsKept) {
  for (const std::string collective :
       {"gtopk", "oktopk", "cltk", "allgather"}) {
    if (!has_collective(collective)) continue;
    Scenario job;
    job.plan = "single";
    job.feedback = "none";
    job.collective = collective;
    job.positive = true;
    const auto ranks = run(job);
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

// Law 7: a step with a NaN is skipped on all ranks; what was finite stays.
TEST(GradientSync, SkipsANonFiniteStepEverywhere) {
  Scenario job;
  job.nan_at = 1;
  const auto ranks = run(job);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank[0].report.committed);
    EXPECT_FALSE(rank[1].report.committed);
    EXPECT_TRUE(rank[2].report.committed);
  }
  EXPECT_EQ(ranks[0][1].report.nonfinite, 1U);
  for (const float v : ranks[0][3].residual) EXPECT_TRUE(std::isfinite(v));
}

// Equal states and inputs give equal bits.
TEST(GradientSync, GoesOnFromASavedState) {
  for (const std::string sparsifier : {"topk", "sidco-p", "dgc"}) {
    for (const std::string collective : {"auto", "oktopk", "balanced"}) {
      std::vector<std::vector<float>> whole(2);
      std::vector<std::vector<float>> resumed(2);
      for (const bool interrupted : {false, true}) {
        auto ranks = make_thread_ranks(2);
        run_ranks(ranks, [&](std::size_t r) {
          Scenario job;
          job.sparsifier = sparsifier;
          job.collective = collective;
          job.feedback = sparsifier == "dgc" ? "dgc" : "residual";
          auto backend = make_backend("cpu/portable");
          DeviceGradients device(*backend);
          SyncOptions options;
          options.plan = plan_of(job);
          auto sync = std::make_unique<GradientSync>(*ranks[r], *backend,
                                                     kTensors, options);
          for (std::uint64_t step = 0; step < 6; ++step) {
            if (interrupted && step == 3) {
              const GradientSync::State state = sync->save();
              sync = std::make_unique<GradientSync>(*ranks[r], *backend,
                                                    kTensors, options);
              sync->load(state);
            }
            device.run(*sync, step, gradients_of(r, step));
            (interrupted ? resumed : whole)[r] = device.get();
          }
        });
      }
      EXPECT_EQ(whole, resumed) << sparsifier << " " << collective;
    }
  }
}

// Whatever message of rank 0 is lost: after recover() all ranks have the step
// or none has it, and the next one works.
void expect_recovery(const std::string& collective, std::uint64_t messages) {
  for (std::uint64_t lost = 0; lost < messages; ++lost) {
    ManualClock clock;
    auto ranks = make_thread_ranks(3, {&clock, &drop_number, &lost});
    std::vector<int> committed(3, -1);
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
      const auto step = [&](std::uint64_t number) {
        const auto report = device.run(sync, number, gradients_of(r, number));
        last[r] = device.get();
        return report.committed;
      };
      try {
        committed[r] = step(0) ? 1 : 0;
        ranks[r]->barrier(100);  // notices what others have noticed
      } catch (const CommError&) {
      }
      committed[r] = was_committed(committed[r] == 1, sync.recover()) ? 1 : 0;
      EXPECT_TRUE(step(1));
    });
    EXPECT_EQ(committed[1], committed[0]) << "message " << lost;
    EXPECT_EQ(committed[2], committed[0]) << "message " << lost;
    EXPECT_EQ(last[1], last[0]);
  }
}

TEST(GradientSync, RecoversFromALostMessage) { expect_recovery("balanced", 8); }

// It measures the network and counts entries in its first step.
TEST(GradientSync, RecoversFromALostMeasurement) {
  expect_recovery("auto", 40);
}

TEST(GradientSync, MeasuresTheNetworkOnce) {
  const auto messages = [](const std::string& collective) {
    Scenario job;
    job.collective = collective;
    job.steps = 1;
    return run(job)[0][0].report.traffic.messages_sent;
  };
  // 22 shifts, the result to two ranks, and each bucket's count to two.
  EXPECT_LT(messages("auto"), messages("allgather") + 22 + 2 + 2 * 5 + 1);
}

TEST(GradientSync, SaysWhatIsWrong) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  SyncOptions options;
  options.plan = plan_of({});
  DeviceGradients device(*backend);
  device.set(gradients_of(0, 0));
  {
    GradientSync sync(*ranks[0], *backend, kTensors, options);
    EXPECT_THROW(sync.finish(), std::logic_error);
    EXPECT_THROW(device.announce(sync, 0), std::logic_error);
    sync.begin(0);
    EXPECT_THROW(sync.begin(1), std::logic_error);
    EXPECT_THROW(sync.ready(0, TensorView{}), std::invalid_argument);
    device.announce(sync, 0);
    EXPECT_THROW(device.announce(sync, 0), std::logic_error);
    EXPECT_THROW(sync.ready(99, TensorView{}), std::invalid_argument);
    EXPECT_THROW(sync.ready(4, flat_view(std::vector<float>(3))),
                 std::invalid_argument);
    EXPECT_THROW(sync.finish(), std::logic_error);
    for (std::size_t t = 1; t < kTensors.size(); ++t) device.announce(sync, t);
    EXPECT_THROW(device.announce(sync, 4), std::logic_error);  // it is empty
    EXPECT_TRUE(sync.finish().committed);
    EXPECT_THROW(sync.finish(), std::logic_error);
    GradientSync::State state = sync.save();
    state.residual.pop_back();
    EXPECT_THROW(sync.load(state), std::invalid_argument);
  }
  options.plan.buckets.pop_back();
  EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
               std::invalid_argument);
  options.plan = plan_of({});
  options.plan.buckets[0].density = 7;
  EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
               std::invalid_argument);
  options.plan = plan_of({});
  options.plan.buckets[0].tensors.push_back(options.plan.buckets[0].tensors[0]);
  EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
               std::invalid_argument);
  options.plan = plan_of({});
  options.plan.buckets[0].values = "fp8";
  EXPECT_THROW(GradientSync(*ranks[0], *backend, kTensors, options),
               std::invalid_argument);
}

TEST(GradientSync, RefusesToRoundValuesForNothing) {
  const auto message = [](const std::string& collective,
                          const std::string& values) -> std::string {
    auto ranks = make_thread_ranks(1);
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    options.plan = plan_of({.collective = collective});
    for (BucketPlan& b : options.plan.buckets) b.values = values;
    try {
      GradientSync(*ranks[0], *backend, kTensors, options);
      return "";
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
  };
  EXPECT_EQ(message("dense:by=ring", "bf16"),
            "[plan] collective 'dense' would send values in full width all the "
            "same, got values 'bf16'; use values fp32, or a collective that "
            "saves by it, as balanced");
  for (const std::string collective : {"dense", "dense-bf16", "cltk"}) {
    EXPECT_NE(message(collective, "fp16"), "") << collective;
    EXPECT_EQ(message(collective, "fp32"), "") << collective;
  }
  for (const std::string collective :
       {"dense-bf16", "cltk", "auto", "oktopk"}) {
    EXPECT_EQ(message(collective, "bf16"), "") << collective;
  }
}

TEST(GradientSync, TracesWhatHappens) {
  auto ranks = make_thread_ranks(2);
  std::vector<Trace> traces(2);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    traces[r].turn(true);
    SyncOptions options;
    options.plan = plan_of({});
    options.trace = &traces[r];
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    DeviceGradients(*backend).run(sync, 0, gradients_of(r, 0));
  });
  const Trace& trace = traces[0];
  for (const std::string_view what :
       {"backward", "select", "encode", "exchange", "apply", "wait"}) {
    EXPECT_TRUE(std::any_of(trace.spans().begin(), trace.spans().end(),
                            [&](const Span& s) {
                              return s.what == what && s.end >= s.begin &&
                                     s.step == 0;
                            }))
        << what;
  }
}

}  // namespace
}  // namespace sluice::testing
