// Those who look on see what was selected, and change nothing.

#include "sluice/sync/observer.h"

#include <map>

#include "sync/sync_runs.h"

namespace sluice::testing::observer_test {
namespace {

// All tensors one after another, as a step was selected from.
struct Seen {
  std::vector<float> gradient = std::vector<float>(total_size(), NAN);
  std::vector<float> input = std::vector<float>(total_size(), NAN);
  std::vector<float> selected = std::vector<float>(total_size(), 0);
  std::vector<std::string> rules;
  std::uint64_t budget = 0;
  std::size_t elements = 0;
  bool bare = true;  // no gradients were shown
};

std::size_t start_of(std::size_t tensor) {
  std::size_t at = 0;
  for (std::size_t t = 0; t < tensor; ++t) at += size_of(kTensors[t]);
  return at;
}

class Watcher final : public SelectionObserver {
 public:
  explicit Watcher(Look look = Look::kEverything) : look_(look) {}

  Look look(std::uint64_t) const override { return look_; }
  void selected(std::uint64_t step, const SelectedPart& part) override {
    Seen& seen = steps[step];
    const std::size_t at = start_of(part.tensor) + part.first;
    for (std::size_t i = 0; i < part.gradient.size(); ++i) {
      seen.gradient[at + i] = part.gradient[i];
      seen.input[at + i] = part.input[i];
    }
    for (std::size_t i = 0; i < part.indices.size(); ++i) {
      ASSERT_TRUE(i == 0 || part.indices[i] > part.indices[i - 1]);
      seen.selected[at + part.indices[i]] = part.values[i];
    }
    seen.rules.emplace_back(part.rule);
    seen.elements += part.size;
    seen.bare = seen.bare && part.gradient.empty();
    if (part.rule != "none") seen.budget += part.budget;
  }

  std::map<std::uint64_t, Seen> steps;

 private:
  Look look_;
};

struct Watched {
  std::vector<Watcher> watchers;
  std::vector<std::vector<Step>> ranks;
};

Watched watch(const Scenario& job, Look look = Look::kEverything) {
  Watched out;
  out.watchers.assign(job.ranks, Watcher(look));
  std::vector<SelectionObserver*> observers;
  for (Watcher& w : out.watchers) observers.push_back(&w);
  out.ranks = run_watched(job, observers);
  return out;
}

class Observer : public ::testing::TestWithParam<std::string> {};

// By allgather all that is selected is delivered, so that the residual is what
// it leaves.
TEST_P(Observer, SeesWhatIsSelectedFromAndWhat) {
  for (const auto& [pieces, offload] :
       {std::pair(1U, false), {3U, false}, {1U, true}}) {
    Scenario job;
    job.backend = GetParam();
    job.ranks = 2;
    job.pieces = pieces;
    job.offload = offload;
    job.collective = "allgather";
    const Watched w = watch(job);
    for (std::size_t r = 0; r < job.ranks; ++r) {
      std::vector<float> before(total_size(), 0);
      for (std::uint64_t step = 0; step < job.steps; ++step) {
        const Seen& seen = w.watchers[r].steps.at(step);
        const Step& s = w.ranks[r][step];
        EXPECT_EQ(seen.gradient, s.gradient);
        EXPECT_EQ(seen.elements, total_size());
        EXPECT_EQ(seen.budget, s.report.budget);
        for (std::size_t j = 0; j < total_size(); ++j) {
          ASSERT_EQ(seen.input[j], before[j] + s.gradient[j]) << j;
          // Dense tensors select nothing and keep nothing.
          if (s.residual[j] == 0) continue;
          ASSERT_EQ(seen.input[j] - seen.selected[j], s.residual[j]) << j;
        }
        before = s.residual;
      }
    }
  }
}

TEST_P(Observer, ChangesNoBits) {
  for (const std::string sparsifier : {"topk", "adtopk", "sidco-p", "none"}) {
    Scenario job;
    job.backend = GetParam();
    job.sparsifier = sparsifier;
    job.ranks = 3;
    if (sparsifier == "none") job.collective = "dense";
    const auto plain = run(job);
    const auto watched = watch(job).ranks;
    for (std::size_t r = 0; r < job.ranks; ++r) {
      for (std::size_t step = 0; step < job.steps; ++step) {
        EXPECT_EQ(plain[r][step].mean, watched[r][step].mean) << sparsifier;
        EXPECT_EQ(plain[r][step].residual, watched[r][step].residual);
      }
    }
  }
}

TEST_P(Observer, SeesNoMoreThanItAsksFor) {
  Scenario job;
  job.backend = GetParam();
  const Watched entries = watch(job, Look::kEntries);
  const Watched all = watch(job);
  EXPECT_TRUE(watch(job, Look::kNothing).watchers[0].steps.empty());
  for (const auto& [step, seen] : entries.watchers[0].steps) {
    EXPECT_TRUE(seen.bare);
    EXPECT_EQ(seen.selected, all.watchers[0].steps.at(step).selected);
  }
  EXPECT_EQ(entries.watchers[0].steps.size(), job.steps);
}

TEST_P(Observer, KnowsWhoseTurnItIs) {
  Scenario job;
  job.backend = GetParam();
  job.turns = {"adtopk"};
  const Watched w = watch(job);
  for (const auto& [step, seen] : w.watchers[0].steps) {
    const std::string rule = step % 2 == 0 ? "topk" : "adtopk";
    for (const std::string& other : seen.rules) {
      EXPECT_TRUE(other == "none" || other == rule) << other;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Observer, ::testing::ValuesIn(device_names()),
                         [](const auto& p) { return safe_name(p.param); });

TEST(ObserverFailure, FailsTheStepOnAllRanks) {
  class Thrower final : public SelectionObserver {
   public:
    Look look(std::uint64_t) const override { return Look::kEntries; }
    void selected(std::uint64_t, const SelectedPart&) override {
      throw std::runtime_error("the disk is full");
    }
  };
  Thrower thrower;
  auto ranks = make_thread_ranks(2);
  run_ranks(ranks, [&](std::size_t r) {
    const auto backend = make_backend("cpu/portable");
    SyncOptions options;
    options.plan = plan_of(Scenario());
    if (r == 1) options.observer = &thrower;
    DeviceGradients device(*backend);
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    try {
      device.run(sync, 0, gradients_of(r, 0));
      ADD_FAILURE() << "rank " << r << " has committed the step";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("the disk is full"),
                std::string::npos)
          << e.what();
    }
  });
}

}  // namespace
}  // namespace sluice::testing::observer_test
