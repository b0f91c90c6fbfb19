// Ranks that an error has met before and behind a change of plans.

#include <algorithm>
#include <array>

#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

// Messages that are lost: one that a rank sends before it recovers, and one
// that a rank sends while it does.
struct LostTwice {
  enum Phase { kSteps, kRecovery, kOver };
  struct Message {
    std::size_t from;
    std::uint64_t number;
  };

  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t) {
    auto& self = *static_cast<LostTwice*>(context);
    const Phase phase = self.phases[from];
    if (phase == kOver) return Fate::kDeliver;
    const Message& lost = self.lost[phase];
    const bool drops = from == lost.from && self.sent[phase]++ == lost.number;
    return drops ? Fate::kDrop : Fate::kDeliver;
  }

  std::array<Message, 2> lost;  // by phase
  // Each of these is of one rank, and used by its threads alone.
  std::array<std::uint64_t, 2> sent = {};
  std::array<Phase, 3> phases = {};
};

// One bucket for each tensor, but for two that share one.
Plan other_plan() {
  Plan plan = plan_of({.plan = "layerwise"});
  const auto with = [&](std::size_t tensor) {
    return std::ranges::find_if(plan.buckets, [&](const BucketPlan& b) {
      return b.tensors == std::vector{tensor};
    });
  };
  with(2)->tensors.push_back(0);
  plan.buckets.erase(with(0));
  return plan;
}

// A rank that takes up another plan after its first step, where it can, and
// recovers before one step more.
class Replanner {
 public:
  Replanner(Communicator& comm, LostTwice& lost)
      : comm_(comm),
        lost_(lost),
        backend_(make_backend("cpu/portable")),
        device_(*backend_),
        sync_(comm, *backend_, kTensors, options()),
        lack_(total_size()) {}

  void run() {
    try {
      step(0);
      sync_.replan(other_plan());
      step(1);
    } catch (const CommError&) {
      failed_ = true;
    }
    buckets_before_ = sync_.plan().buckets.size();
    // Who has seen no error as well.
    lost_.phases[comm_.rank()] = LostTwice::kRecovery;
    Recovered recovered = Recovered::kNoStep;
    try {
      recovered = sync_.recover();
    } catch (const CommError&) {
      failed_again_ = true;
    }
    lost_.phases[comm_.rank()] = LostTwice::kOver;
    const Recovered again = sync_.recover();
    EXPECT_TRUE(recovered == Recovered::kNoStep || again == Recovered::kNoStep);
    if (std::max(recovered, again) == Recovered::kCommitted)
      add(device_.get(), -1);
    step(5);
    add(sync_.save().residual, -1);
  }

  bool failed() const { return failed_; }
  bool failed_again() const { return failed_again_; }
  std::size_t buckets_before() const { return buckets_before_; }
  std::size_t buckets() const { return sync_.plan().buckets.size(); }
  // Of the last step.
  std::vector<float> mean() { return device_.get(); }
  // What was brought, less what came and what is kept.
  const std::vector<double>& lack() const { return lack_; }

 private:
  static SyncOptions options() {
    SyncOptions out;
    out.plan = plan_of({.plan = "layerwise"});
    return out;
  }
  void add(const std::vector<float>& values, double factor) {
    for (std::size_t i = 0; i < lack_.size(); ++i) {
      lack_[i] += factor * values[i];
    }
  }
  void step(std::uint64_t number) {
    const Gradients g = gradients_of(comm_.rank(), number);
    add(flat(g), 1);
    EXPECT_TRUE(device_.run(sync_, number, g).committed);
    add(device_.get(), -1);
  }

  Communicator& comm_;
  LostTwice& lost_;
  std::unique_ptr<Backend> backend_;
  DeviceGradients device_;
  GradientSync sync_;
  std::vector<double> lack_;
  bool failed_ = false;
  bool failed_again_ = false;
  std::size_t buckets_before_ = 0;
};

using Replanners = std::vector<std::unique_ptr<Replanner>>;

void expect_one_plan_and_all_mass(Replanners& ranks) {
  std::vector<double> lack(total_size());
  for (auto& rank : ranks) {
    EXPECT_EQ(rank->buckets(), ranks[0]->buckets());
    EXPECT_EQ(rank->mean(), ranks[0]->mean());
    for (std::size_t i = 0; i < lack.size(); ++i) lack[i] += rank->lack()[i];
  }
  for (std::size_t t = 0, i = 0; t < kTensors.size(); ++t) {
    for (std::size_t j = 0; j < size_of(kTensors[t]); ++j, ++i) {
      // What is dense stays with who brought it.
      if (kTensors[t].dims.size() < 2) continue;
      ASSERT_NEAR(lack[i], 0, 1e-5) << kTensors[t].name;
    }
  }
}

struct Differing {
  int plans = 0;  // runs in which they did
  int failed_again = 0;
};

// Of runs that lose these messages. False if no rank has failed.
bool recover_to_one_plan(LostTwice lost, Differing& found, bool& again) {
  ManualClock clock;
  auto comms = make_thread_ranks(3, {&clock, &LostTwice::decide, &lost});
  Replanners ranks(3);
  run_ranks(comms, [&](std::size_t r) {
    ranks[r] = std::make_unique<Replanner>(*comms[r], lost);
    ranks[r]->run();
  });
  if (::testing::Test::HasFailure()) return false;
  expect_one_plan_and_all_mass(ranks);
  const auto any = [&](auto&& what) {
    return std::ranges::any_of(ranks, [&](const auto& r) { return what(*r); });
  };
  const bool differ = any([&](const Replanner& r) {
    return r.buckets_before() != ranks[0]->buckets_before();
  });
  again = any([](const Replanner& r) { return r.failed_again(); });
  found.plans += differ ? 1 : 0;
  found.failed_again += differ && again ? 1 : 0;
  // Only where there is something to be evened.
  again = again && differ;
  return any([](const Replanner& r) { return r.failed(); });
}

// Some ranks have taken up another plan when a message is lost, and others have
// not: they go on by one, and nothing is lost, whatever is lost on the way.
TEST(SyncFaults, RanksWithDifferentPlansRecoverToOne) {
  for (const auto& [first, second] :
       std::vector<std::array<std::size_t, 2>>{{1, 1}, {0, 1}}) {
    Differing found;
    bool failed = true;
    for (std::uint64_t i = 0; failed; ++i) {
      bool again = true;
      for (std::uint64_t j = 0; again; ++j) {
        SCOPED_TRACE(::testing::Message()
                     << first << ": " << i << ", " << second << ": " << j);
        const LostTwice lost{{{{first, i}, {second, j}}}};
        failed = recover_to_one_plan(lost, found, again);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(found.plans, 0);
    EXPECT_GT(found.failed_again, found.plans / 2);
  }
}

}  // namespace
}  // namespace sluice::testing
