// Training steps in which messages are lost and damaged at random, one after
// the other, while ranks skip steps, give steps up and change plans: whatever
// happens, law 1 holds over all steps and replicas stay equal.
//
// SLUICE_TEST_SEED says which runs and faults; without it, each time draws
// others and prints their seed. SLUICE_TEST_SECONDS says for how long, or
// SLUICE_TEST_ROUNDS how many runs: SLUICE_TEST_SEED=S SLUICE_TEST_ROUNDS=1
// repeats a run that has failed, up to the timing of its threads.

#include <cstdlib>
#include <random>
#include <string>

#include "sync/sync_script.h"

namespace sluice::testing {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// Messages that meet their fate, by a hash of seed, sender and number. After
// one of them there is calm until all ranks have recovered, or, after every
// third, not even then.
struct Storm {
  std::uint64_t seed;
  std::size_t ranks;
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> recovered{0};
  std::atomic<bool> over{false};

  static Fate decide(void* context, std::size_t from, std::size_t to,
                     std::uint64_t number) {
    auto& self = *static_cast<Storm*>(context);
    constexpr std::uint64_t kOneIn = 200;
    constexpr std::uint64_t kMost = 30;
    const std::uint64_t h = mix64(self.seed, 100 * from + to, number);
    std::uint64_t hits = self.hits;
    const bool calm =
        hits % 3 != 2 && self.recovered < (hits - hits / 3) * self.ranks;
    if (self.over || calm || hits >= kMost || h % kOneIn != 0 ||
        !self.hits.compare_exchange_strong(hits, hits + 1)) {
      return Fate::kDeliver;
    }
    return h / kOneIn % 3 == 0 ? Fate::kCorrupt : Fate::kDrop;
  }
};

// Draws one thing after the other.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t n) { return mix64(seed_, 77, n_++) % n; }
  std::string of(const std::vector<std::string>& all) {
    return all[below(all.size())];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t n_ = 0;
};

const std::vector<std::string> kPlans = {"layerwise", "single", "size=3k"};

Scenario draw_job(Draw& draw, bool machines) {
  Scenario job;
  job.plan = draw.of(kPlans);
  job.sparsifier = draw.of({"topk", "adtopk", "tile", "sidco-e", "dgc"});
  job.collective = draw.of({"allgather", "balanced", "oktopk", "sparcml-rd",
                            "sparcml-split", "gtopk", "gtopk-tree", "auto"});
  job.backend =
      draw.of({"cpu/portable", "fake", "cpu/portable+link", "fake+link"});
  job.pieces = 1 + draw.below(3);
  if (draw.below(2) == 0) job.turns = {draw.of({"topk", "adtopk"})};
  job.ranks = 2 + draw.below(4);
  if (!machines) {
    job.offload = draw.below(2) == 0;
    return job;
  }
  job.ranks += 2;
  for (std::size_t r = 0; r < job.ranks; ++r) {
    job.machine_of.push_back(draw.below(3));
  }
  return job;
}

Script draw_script(std::uint64_t seed, bool machines) {
  Draw draw(seed);
  Script script;
  script.job = draw_job(draw, machines);
  if (draw.below(3) == 0) script.network.reset();
  script.steps.resize(12);
  for (std::size_t s = 0; s < script.steps.size(); ++s) {
    ScriptedStep& step = script.steps[s];
    if (draw.below(4) == 0) step.bad_rank = draw.below(script.job.ranks);
    if (draw.below(6) == 0) step.quit_rank = draw.below(script.job.ranks);
    if (draw.below(4) != 0) continue;
    Scenario other = script.job;
    other.plan = draw.of(kPlans);
    other.pieces = 1 + draw.below(2);
    step.plan = plan_of(other);
    step.plan->hierarchical = machines && draw.below(3) != 0;
  }
  return script;
}

std::uint64_t weather(std::uint64_t seed, bool machines) {
  const Script script = draw_script(seed, machines);
  const Scenario& job = script.job;
  SCOPED_TRACE(::testing::Message()
               << "SLUICE_TEST_SEED=" << seed << ": " << job.ranks << " ranks, "
               << job.plan << ", " << job.sparsifier
               << (job.turns.empty() ? "" : "/" + job.turns[0]) << ", "
               << job.pieces << " pieces, " << job.collective << ", "
               << job.backend << (job.offload ? ", offloaded" : ""));
  ManualClock clock;
  Storm storm{seed, job.ranks};
  auto ranks = make_thread_ranks(job.ranks, {&clock, &Storm::decide, &storm});
  LinkHub hub(&Storm::decide, &storm);
  std::vector<Account> accounts(job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    ScriptedRank rank(*ranks[r], hub, script, storm.over);
    rank.on_recovery = [&] { ++storm.recovered; };
    accounts[r] = rank.run();
  });
  if (!::testing::Test::HasFailure()) expect_accounts(script, accounts);
  return storm.hits;
}

void weather_all(bool machines) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t rounds = from_environment("SLUICE_TEST_ROUNDS", 0);
  const auto end = Clock::now() + std::chrono::seconds(from_environment(
                                      "SLUICE_TEST_SECONDS", 30));
  const std::uint64_t first =
      from_environment("SLUICE_TEST_SEED", std::random_device()());
  std::cout << "SLUICE_TEST_SEED=" << first << std::endl;
  std::uint64_t seed = first;
  std::uint64_t hits = 0;
  const auto goes_on = [&] {
    return rounds > 0 ? seed - first < rounds : Clock::now() < end;
  };
  while (goes_on() && !::testing::Test::HasFailure()) {
    hits += weather(seed++, machines);
  }
  std::cout << seed - first << " runs, " << hits << " faults" << std::endl;
  EXPECT_GT(hits, 0U);
}

TEST(SyncStorm, LosesNothingAndReplicasStayEqual) { weather_all(false); }

TEST(SyncStorm, LosesNothingBetweenMachines) { weather_all(true); }

}  // namespace
}  // namespace sluice::testing
