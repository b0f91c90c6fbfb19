// Ranks that miss a message of a step, a vote, a skipped step, a change of
// plans or a recovery: afterwards all of them have decided alike on every step.

#include <array>
#include <cstdlib>

#include "sync/sync_script.h"

namespace sluice::testing {
namespace {

// Loses one message, and one more among those that follow it.
struct TwoFaults {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  struct Message {
    std::size_t from = 0;
    std::uint64_t number = kNone;  // among those of its sender
  };

  Message first;
  Message second;  // counted from the moment at which the first is lost
  Fate fate = Fate::kDrop;
  std::atomic<bool> over{false};
  std::atomic<bool> hit{false};
  std::atomic<bool> hit_again{false};
  std::atomic<std::uint64_t> since{0};
  std::array<std::atomic<std::uint64_t>, 8> sent{};

  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t number) {
    auto& self = *static_cast<TwoFaults*>(context);
    if (self.over) return Fate::kDeliver;
    ++self.sent[from];
    if (from == self.first.from && number == self.first.number) {
      self.hit = true;
      return self.fate;
    }
    if (self.hit && from == self.second.from &&
        self.since++ == self.second.number) {
      self.hit_again = true;
      return self.fate;
    }
    return Fate::kDeliver;
  }
};

void follow(const Script& script, TwoFaults& faults) {
  ManualClock clock;
  // A link has messages of its own, which are the ones to lose then.
  const bool linked = is_linked(script.job.backend);
  auto ranks = make_thread_ranks(
      script.job.ranks,
      {&clock, linked ? nullptr : &TwoFaults::decide, &faults});
  LinkHub hub(linked ? &TwoFaults::decide : nullptr, &faults);
  std::vector<Account> accounts(script.job.ranks);
  run_ranks(ranks, [&](std::size_t r) {
    accounts[r] = ScriptedRank(*ranks[r], hub, script, faults.over).run();
  });
  if (::testing::Test::HasFailure()) return;
  expect_accounts(script, accounts);
  for (const Account& a : accounts) EXPECT_EQ(a.recoveries > 0, faults.hit);
}

// Two good steps with one that is skipped between them, then another plan, and
// two more, of which the first is skipped.
Script script_for(const std::string& collective, std::size_t ranks) {
  Script script;
  script.job.plan = "layerwise";
  script.job.collective = collective;
  script.job.ranks = ranks;
  if (collective.starts_with("dense")) script.job.sparsifier = "none";
  script.steps.resize(5);
  script.steps[1].bad_rank = ranks - 1;
  script.steps[3].bad_rank = 0;
  Scenario other = script.job;
  other.plan = "single";
  script.steps[3].plan = plan_of(other);
  return script;
}

std::vector<std::string> all_collectives() {
  std::vector<std::string> out;
  for (const auto& entry : collectives()) out.emplace_back(entry.name);
  return out;
}

// How many messages each rank sends if none is lost.
std::vector<std::uint64_t> messages_of(const Script& script) {
  TwoFaults none;
  follow(script, none);
  std::vector<std::uint64_t> out;
  for (std::size_t r = 0; r < script.job.ranks; ++r) {
    out.push_back(none.sent[r]);
  }
  return out;
}

// Loses message after message, every `stride`-th of those of each rank.
void lose_each(const Script& script, std::uint64_t stride) {
  const std::vector<std::uint64_t> messages = messages_of(script);
  std::uint64_t tries = 0;
  std::uint64_t hits = 0;
  for (std::size_t from = 0; from < script.job.ranks; ++from) {
    for (std::uint64_t n = from % stride; n < messages[from]; n += stride) {
      SCOPED_TRACE(concat(script.job.collective, ", ", script.job.ranks,
                          " ranks, message ", n, " of rank ", from));
      TwoFaults lost;
      lost.first = {from, n};
      lost.fate = n % 3 == 2 ? Fate::kCorrupt : Fate::kDrop;
      follow(script, lost);
      if (::testing::Test::HasFailure()) return;
      ++tries;
      hits += lost.hit ? 1 : 0;
    }
  }
  // Of the barrier at the end no message is lost once a rank has come to it.
  EXPECT_GT(2 * hits, tries);
}

// The long forms of these tests take all messages and all pairs of them.
bool is_long() { return std::getenv("SLUICE_TEST_LONG") != nullptr; }

class EachMessage : public ::testing::TestWithParam<std::string> {};

TEST_P(EachMessage, MayBeLost) {
  // In its first step `auto` sends 22 messages to each rank.
  const std::uint64_t few = GetParam() == "auto" ? 19 : 1;
  for (const std::size_t ranks : {2, 3, 4, 5}) {
    const std::uint64_t stride = is_long() ? 1 : ranks <= 3 ? few : 19;
    lose_each(script_for(GetParam(), ranks), stride);
    if (HasFailure()) return;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Collectives, EachMessage,
                         ::testing::ValuesIn(all_collectives()), name_of);

TEST(Decisions, SurviveALossInTheLink) {
  for (const std::size_t ranks : {2, 3}) {
    Script script = script_for("balanced", ranks);
    script.job.backend = "fake+link";
    lose_each(script, is_long() ? 1 : 3);
  }
}

TEST(Decisions, SurviveALossBetweenNodes) {
  Script script = script_for("allgather", 4);
  script.job.machine_of = {0, 1, 0, 1};
  for (ScriptedStep& s : script.steps) {
    if (s.plan) s.plan->hierarchical = true;
  }
  lose_each(script, is_long() ? 1 : 3);
}

// The message lost second is one of the recovery, of the next step, or of what
// becomes of these.
TEST(Decisions, SurviveTwoLossesInARow) {
  for (const std::size_t ranks : {2, 3, 4, 5}) {
    const Script script = script_for("allgather", ranks);
    const std::vector<std::uint64_t> messages = messages_of(script);
    const std::uint64_t stride = is_long() ? 1 : 11 * ranks * ranks;
    std::uint64_t pair = 0;
    std::uint64_t both = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::uint64_t n = 0; n < messages[from]; ++n) {
        for (std::uint64_t m = 0; m < 16 * ranks; ++m) {
          if (mix64(3, ++pair) % stride != 0) continue;
          SCOPED_TRACE(concat(ranks, " ranks, message ", n, " of rank ", from,
                              " and ", m / ranks, " of rank ", m % ranks));
          TwoFaults lost;
          lost.first = {from, n};
          lost.second = {m % ranks, m / ranks};
          follow(script, lost);
          if (HasFailure()) return;
          both += lost.hit_again ? 1 : 0;
        }
      }
    }
    EXPECT_GT(both, 0U);
  }
}

// Seven steps of two ranks, and then, if `replans`, another plan and a step
// more. Returns the errors of the ranks.
std::vector<std::string> change_plans(TwoFaults& lost, bool replans) {
  const Script script = script_for("allgather", 2);
  Plan other = plan_of(script.job);
  std::erase_if(other.buckets, [](const BucketPlan& b) { return b.dense(); });
  other.buckets.resize(1);
  other.buckets[0].tensors = {0, 1, 2, 3, 4, 5};
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, &TwoFaults::decide, &lost});
  std::vector<std::string> errors(2);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    options.plan = plan_of(script.job);
    options.first_step = 1;
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    for (std::uint64_t s = 0; s < 7; ++s) {
      EXPECT_TRUE(device.run(sync, s, gradients_of(r, s)).committed);
    }
    if (!replans) return;
    try {
      sync.replan(other);
      device.run(sync, 7, gradients_of(r, 7));
    } catch (const CommError& e) {
      errors[r] = e.what();
    }
    // The step before was committed, but the error was none of that step.
    EXPECT_NE(sync.recover(), Recovered::kCommitted);
    EXPECT_TRUE(device.run(sync, 7, gradients_of(r, 7)).committed);
  });
  return errors;
}

// A frame of replan() that is lost must not be taken for one of the next plan's
// first exchange: all ranks see a lost message, and none sees another plan.
TEST(Decisions, ALostPlanIsNoOtherPlan) {
  TwoFaults none;
  change_plans(none, false);
  for (const std::size_t from : {0, 1}) {
    TwoFaults lost;
    lost.first = {from, none.sent[from]};
    for (const std::string& e : change_plans(lost, true)) {
      EXPECT_NE(e.find("step 8"), std::string::npos) << e;
      EXPECT_EQ(e.find("must take up the same plan"), std::string::npos) << e;
    }
    EXPECT_TRUE(lost.hit);
  }
}

// Ranks whose callers have lost count must not go on for ever.
TEST(Decisions, RanksAtDifferentStepsAreToldSo) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(2);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_backend("cpu/portable");
    SyncOptions options;
    options.plan = plan_of({});
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    EXPECT_THROW(device.run(sync, 4 + r, gradients_of(r, 0)), CommError);
    try {
      sync.recover();
    } catch (const std::runtime_error& e) {
      errors[r] = e.what();
    }
  });
  EXPECT_EQ(errors[0],
            "[settle] rank 0 is in step 4, but rank 1 is in step 5 after the "
            "same decisions; give all ranks the same step numbers");
  EXPECT_EQ(errors[1], errors[0]);
}

}  // namespace
}  // namespace sluice::testing
