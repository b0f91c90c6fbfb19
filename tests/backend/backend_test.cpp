#include "sluice/backend/backend.h"

#include <atomic>
#include <cstdlib>
#include <random>

#include "fake_device.h"
#include "sluice/backend/cpu/selector.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "support.h"

namespace sluice::testing {
namespace {

TEST(Selector, NthLargestKeyEqualsSorting) {
  for (const std::size_t m : {1, 100, 8192, 8193, 50'000}) {
    for (const std::uint32_t range : {1U, 7U, 5000U, 0x7fffffffU}) {
      std::vector<std::uint32_t> keys(m);
      std::mt19937 rng(42);
      for (auto& key : keys) {
        key = static_cast<std::uint32_t>(100 + rng() % range);
      }
      auto sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (const std::size_t rank : {std::size_t{1}, m / 2 + 1, m}) {
        auto copy = keys;
        EXPECT_EQ(cpu::nth_largest_key(copy.data(), m, rank), sorted[rank - 1]);
      }
    }
  }
}

// One segment of g and a memory of zeros through a rule, and what came of it.
struct Selection {
  Selection(std::span<const float> g, std::size_t k, const Rule& rule,
            std::size_t threads)
      : memory(g.size(), 0), indices(g.size()), values(g.size()) {
    SegmentTask task;
    task.gradient = g.data();
    task.memory = memory.data();
    task.facts.n = g.size();
    task.facts.k = k;
    task.rule = rule;
    task.capacity = k;
    std::vector<std::uint64_t> starts(2);
    SelectPass pass;
    pass.segments = {&task, 1};
    pass.states = &state;
    pass.reports = &report;
    pass.indices = indices.data();
    pass.values = values.data();
    pass.starts = starts.data();
    auto backend = make_cpu_backend({threads, ""});
    auto stream = backend->make_stream();
    backend->select(*stream, pass);
    indices.resize(starts[1]);
    values.resize(starts[1]);
  }

  std::vector<float> memory;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  RuleState state;
  SegmentReport report;
};

// Whatever a rule says, the capacity holds and the largest go.
TEST(Selector, HoldsTheCapacityAgainstARuleThatDoesNot) {
  const auto g = gaussian(5000, 4);
  Selection got(g, 10, take_all_rule(), 1);
  EXPECT_EQ(got.indices, reference_topk(g, 10));
  for (std::size_t i = 0; i < 10; ++i) {
    got.memory[got.indices[i]] += got.values[i];
  }
  EXPECT_EQ(got.memory, g);
}

// Brackets the value 1 with its ties, or everything from 1 on, and keeps all
// that it is told.
struct Told {
  Counts counts;
  Outcome outcome;
};

Rule telling_rule(bool ties) {
  Rule rule;
  rule.ask = [](const RuleCall&) { return Query{}; };
  rule.propose = [](const RuleCall&, const Answer&) {
    const std::uint32_t one = magnitude_key(1.0F);
    return Bracket{one, one + 1, true, false};
  };
  if (!ties) {
    rule.propose = [](const RuleCall&, const Answer&) {
      return Bracket{magnitude_key(1.0F), magnitude_key(1.5F), false, false};
    };
  }
  rule.judge = [](const RuleCall& call, const Counts& counts) -> Verdict {
    state_as<Told>(call.state).counts = counts;
    return {Verdict::kTake, call.facts.k};
  };
  rule.observe = [](const RuleCall& call, const Outcome& outcome) {
    state_as<Told>(call.state).outcome = outcome;
  };
  return rule;
}

TEST(Selector, TellsRulesTheSameWithAnyNumberOfThreads) {
  constexpr std::size_t kSize = 1U << 20;
  std::vector<float> few(kSize, 0.5F);
  for (std::size_t i = 0; i < kSize; i += 1000) few[i] = i % 3 == 0 ? 1 : 2;
  std::vector<float> doubles(kSize, 1);
  for (std::size_t i = 0; i < kSize; i += 2) doubles[i] = 2;
  const std::vector<float> equal(kSize, 1);
  // 1024: where the list of one thread ends exactly with its last tie.
  for (const std::size_t k : {1, 100, 1024, 5000}) {
    for (const auto& g : {equal, few, doubles, gaussian(kSize, 9)}) {
      for (const bool ties : {true, false}) {
        Selection one(g, k, telling_rule(ties), 1);
        for (const std::size_t threads : {2, 3}) {
          Selection got(g, k, telling_rule(ties), threads);
          EXPECT_EQ(got.state.raw, one.state.raw) << k << " " << ties;
          EXPECT_EQ(got.report.candidates, one.report.candidates);
          EXPECT_EQ(got.report.rounds, one.report.rounds);
          EXPECT_EQ(got.indices, one.indices);
          EXPECT_EQ(got.memory, one.memory);
        }
        const auto told = state_as<Told>(one.state);
        EXPECT_EQ(one.indices.size(), std::min(k, told.outcome.selected));
        EXPECT_TRUE(!ties || g != equal || told.outcome.tied) << k;
      }
    }
  }
}

TEST(Selector, SelectsExactlyForARuleThatIsNeverContent) {
  const auto g = gaussian(100'000, 5);
  Rule rule = telling_rule(false);
  rule.judge = [](const RuleCall&, const Counts&) -> Verdict {
    return {Verdict::kAgain, 0};
  };
  Selection got(g, 500, rule, 2);
  EXPECT_EQ(got.indices, reference_topk(g, 500));
  EXPECT_EQ(state_as<Told>(got.state).outcome.rounds, kMaxRounds + 1);
  EXPECT_TRUE(state_as<Told>(got.state).outcome.exact);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const std::size_t threads : {1, 2, 5}) {
    cpu::ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const std::size_t tasks : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> done(tasks);
      for (int round = 0; round < 50; ++round) {
        pool.run(tasks, [&](std::size_t t) { ++done[t]; });
      }
      for (const auto& d : done) EXPECT_EQ(d.load(), 50);
    }
  }
}

TEST(CpuBackend, ForcedKernelsAreUsedOrRefused) {
  for (const std::string_view isa : cpu_isas()) {
    EXPECT_EQ(make_cpu_backend({1, std::string(isa)})->name(),
              "cpu/" + std::string(isa));
    setenv("SLUICE_CPU", std::string(isa).c_str(), 1);
    EXPECT_EQ(make_cpu_backend({1, ""})->name(), "cpu/" + std::string(isa));
  }
  setenv("SLUICE_CPU", "sse9", 1);
  try {
    make_cpu_backend({1, ""});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(
        std::string(e.what()).find(
            "[cpu_backend] SLUICE_CPU must name kernels that this machine "
            "can run, got 'sse9'; it can run: "),
        std::string::npos)
        << e.what();
  }
  unsetenv("SLUICE_CPU");
}

TEST(FakeDevice, CountsAreUnreadableBeforeTheirEvent) {
  auto backend = make_fake_device_backend({1, ""});
  auto stream = backend->make_stream();
  SparseBlock block(*backend, 10, 10, 1);
  EXPECT_THROW(block.count(), std::logic_error);
  const Event event = block.fetch(*backend, *stream);
  EXPECT_THROW(block.count(), std::logic_error);
  backend->wait(event);
  EXPECT_EQ(block.count(), 0U);
}

TEST(FakeDevice, WorkRunsOnlyWhenSomeoneWaits) {
  auto backend = make_fake_device_backend({1, ""});
  auto stream = backend->make_stream();
  Buffer memory = backend->allocate(16);
  const std::vector<float> in = {1, 2, 3, 4};
  std::vector<float> out(4, 0);
  backend->copy_in(*stream, memory.data(), std::as_bytes(std::span(in)));
  backend->copy_out(*stream, std::as_writable_bytes(std::span(out)),
                    memory.data());
  const Event event = backend->record(*stream);
  EXPECT_FALSE(event.done());
  EXPECT_EQ(out[0], 0);
  backend->wait(event);
  EXPECT_EQ(out, in);
}

TEST(FakeDeviceDeathTest, HostAccessCrashes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto backend = make_fake_device_backend({1, ""});
  Buffer memory = backend->allocate(16);
  EXPECT_DEATH(
      {
        volatile float x = *memory.data<float>();
        (void)x;
      },
      "");
}

}  // namespace
}  // namespace sluice::testing
