// What a sync keeps, set aside and brought back.

#include "refusal.h"
#include "sync/sync_support.h"

namespace sluice::testing::aside_test {
namespace {

constexpr std::uint64_t kBefore = 3;  // steps
constexpr std::uint64_t kTaken = 2;   // steps that are taken back
constexpr std::uint64_t kAfter = 3;

// What a rank has seen.
struct Seen {
  GradientSync::State before;
  GradientSync::State brought_back;
  std::vector<std::vector<float>> means;  // of the steps behind it
};

// Of different runs: of what collectives learn, some are times that they took.
void expect_alike(const GradientSync::State& a, const GradientSync::State& b) {
  EXPECT_EQ(a.residual, b.residual);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.rules, b.rules);
}

// With steps that are taken back, or without any. `meanwhile`: what becomes of
// the plan in between.
std::vector<Seen> run(const Scenario& job, bool takes_back,
                      const std::optional<Plan>& meanwhile = {}) {
  auto ranks = make_thread_ranks(job.ranks);
  LinkHub hub;
  std::vector<Seen> seen(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend(job.backend);
    const auto link = make_link(job.backend, hub, *ranks[r], *backend);
    SyncOptions options;
    options.plan = plan_of(job);
    options.link = link.get();
    options.machine_of = job.machine_of;
    options.network = Network{50e-6, 1e-9};
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    std::uint64_t step = 0;
    for (; step < kBefore; ++step) {
      device.run(sync, step, gradients_of(r, step));
    }
    seen[r].before = sync.save();
    sync.set_aside();
    if (takes_back) {
      for (; step < kBefore + kTaken; ++step) {
        device.run(sync, step, gradients_of(r, 100 + step));
        if (meanwhile && step == kBefore) sync.replan(*meanwhile);
      }
      // Ranks that lead no machine have none.
      if (job.machine_of.empty()) {
        EXPECT_NE(sync.save().residual, seen[r].before.residual);
      }
      sync.bring_back();
    } else if (meanwhile) {
      sync.replan(*meanwhile);
    }
    seen[r].brought_back = sync.save();
    // Some rules count steps, so that both go on by the same number.
    for (step = kBefore + kTaken; step < kBefore + kTaken + kAfter; ++step) {
      device.run(sync, step, gradients_of(r, step));
      seen[r].means.push_back(device.get());
    }
  });
  return seen;
}

Scenario scenario(const std::string& plan, const std::string& sparsifier,
                  const std::string& feedback, const std::string& collective) {
  Scenario job;
  job.plan = plan;
  job.sparsifier = sparsifier;
  job.feedback = feedback;
  job.collective = collective;
  return job;
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> out = {
      scenario("layerwise", "topk", "residual", "auto"),
      scenario("size=4k", "adtopk", "residual", "balanced"),
      scenario("single", "sidco-e", "residual", "oktopk"),
      scenario("layerwise", "dgc", "dgc", "allgather"),
      scenario("single", "none", "residual", "dense-bf16")};
  out[1].pieces = 2;
  Scenario machines = scenario("single", "topk", "residual", "balanced");
  machines.ranks = 4;
  machines.machine_of = {0, 0, 1, 1};
  out.push_back(machines);
  Scenario offload = scenario("layerwise", "topk", "dgc", "balanced");
  offload.backend = "fake";
  offload.offload = true;
  out.push_back(offload);
  return out;
}

TEST(SetAside, BringsBackEveryBit) {
  for (const Scenario& job : scenarios()) {
    SCOPED_TRACE(job.sparsifier + " " + job.feedback + " " + job.collective);
    if (!has_collective(job.collective)) continue;
    const auto taken = run(job, true);
    const auto plain = run(job, false);
    for (std::size_t r = 0; r < job.ranks; ++r) {
      expect_alike(taken[r].before, taken[r].brought_back);
      EXPECT_EQ(taken[r].before.collectives, taken[r].brought_back.collectives);
      EXPECT_EQ(taken[r].means, plain[r].means);
    }
  }
}

// Residuals and momenta belong to tensors; buckets that are new start anew.
TEST(SetAside, BringsMemoriesBackUnderAnotherPlan) {
  const Scenario job = scenario("layerwise", "adtopk", "dgc", "balanced");
  Scenario other = job;
  other.plan = "single";
  const auto taken = run(job, true, plan_of(other));
  const auto plain = run(job, false, plan_of(other));
  for (std::size_t r = 0; r < job.ranks; ++r) {
    expect_alike(taken[r].brought_back, plain[r].brought_back);
    EXPECT_EQ(taken[r].before.residual, taken[r].brought_back.residual);
    EXPECT_EQ(taken[r].before.momentum, taken[r].brought_back.momentum);
    EXPECT_EQ(taken[r].means, plain[r].means);
  }
}

// Also where other tensors are selected on the host than before.
TEST(SetAside, BringsMemoriesBackToWhereTheyNowBelong) {
  Scenario job = scenario("layerwise", "topk", "residual", "balanced");
  job.backend = "fake";
  Scenario other = job;
  other.offload = true;
  for (const bool to_host : {true, false}) {
    const Scenario& from = to_host ? job : other;
    const auto taken = run(from, true, plan_of(to_host ? other : job));
    for (std::size_t r = 0; r < job.ranks; ++r) {
      EXPECT_EQ(taken[r].before.residual, taken[r].brought_back.residual);
    }
  }
}

TEST(SetAside, IsAskedForFirst) {
  auto ranks = make_thread_ranks(1);
  auto backend = make_backend("cpu/portable");
  SyncOptions options;
  options.plan = plan_of({});
  GradientSync sync(*ranks[0], *backend, kTensors, options);
  try {
    sync.bring_back();
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[sync] bring_back() must come after set_aside()");
  }
  const std::size_t before = sync.memory_bytes();
  sync.set_aside();
  EXPECT_EQ(sync.memory_bytes(), before + total_size() * sizeof(float));
}

}  // namespace
}  // namespace sluice::testing::aside_test
