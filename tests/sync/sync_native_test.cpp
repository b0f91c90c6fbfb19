// Sums by the engine's own all-reduce, in gradients that are scratch.

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>

#include "sync/sync_support.h"

namespace sluice::testing {
namespace {

using namespace std::chrono_literals;

// Where sums of ranks that are threads meet. A sum is done when all ranks have
// started it and, of the first `together`, when all of these are under way.
class SumHub {
 public:
  SumHub(std::size_t ranks, std::size_t together)
      : ranks_(ranks), together_(together) {}

  struct Part {
    std::span<float> values;
    MemoryOwner owner;
  };

  std::size_t start(std::size_t rank, const Part& part) {
    const std::lock_guard lock(mutex_);
    const std::size_t number = started_[rank]++;
    auto& parts = meetings_[number];
    parts[rank] = part;
    if (parts.size() == ranks_) {
      // In the order of the ranks, by whoever comes last.
      std::vector<float> sum(part.values.size());
      for (const auto& [r, p] : parts) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += p.values[i];
      }
      for (const auto& [r, p] : parts) std::ranges::copy(sum, p.values.begin());
      ++whole_;
      meetings_.erase(number);
    }
    changed_.notify_all();
    return number;
  }
  bool wait(std::size_t number) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 5ms, [&] {
      return meetings_.count(number) == 0 &&
             (number >= together_ || whole_ >= together_);
    });
  }

 private:
  std::size_t ranks_;
  std::size_t together_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, std::size_t> started_;
  std::map<std::size_t, std::map<std::size_t, Part>> meetings_;
  std::size_t whole_ = 0;
};

class SummingEngine final : public Engine {
 public:
  SummingEngine(std::unique_ptr<Engine> inner, SumHub& hub)
      : inner_(std::move(inner)), hub_(hub) {}

  std::size_t rank() const override { return inner_->rank(); }
  std::size_t size() const override { return inner_->size(); }
  void post(std::size_t peer, const Frame& frame) override {
    inner_->post(peer, frame);
  }
  bool poll(std::size_t peer, Frame& frame) override {
    return inner_->poll(peer, frame);
  }
  void idle(Clock::time_point until) override { inner_->idle(until); }
  Clock::time_point now() const override { return inner_->now(); }
  void rebuild() override { sums_ = false; }

  Native sum(std::span<const float> in, std::span<float> out,
             const MemoryOwner& owner,
             const std::function<bool()>& late) override {
    if (!sums_ || in.empty()) return Native::kNone;
    std::ranges::copy(in, out.data());
    return start_sum(out, owner)->wait(late);
  }
  std::unique_ptr<Sum> start_sum(std::span<float> values,
                                 const MemoryOwner& owner) override {
    if (!sums_) return nullptr;
    return std::make_unique<HubSum>(hub_, hub_.start(rank(), {values, owner}));
  }

 private:
  class HubSum final : public Sum {
   public:
    HubSum(SumHub& hub, std::size_t number) : hub_(hub), number_(number) {}
    Native wait(const std::function<bool()>& late) override {
      while (!hub_.wait(number_)) {
        if (late()) return Native::kLate;
      }
      return Native::kDone;
    }

   private:
    SumHub& hub_;
    std::size_t number_;
  };

  std::unique_ptr<Engine> inner_;
  SumHub& hub_;
  bool sums_ = true;
};

std::vector<std::unique_ptr<Communicator>> summing_ranks(std::size_t size,
                                                         SumHub& hub) {
  std::vector<std::unique_ptr<Communicator>> out;
  for (auto& engine : make_thread_engines(size)) {
    out.push_back(std::make_unique<Communicator>(
        std::make_unique<SummingEngine>(std::move(engine), hub)));
    out.back()->set_timeout(500ms);
  }
  return out;
}

SyncOptions dense_options(std::string_view plan) {
  SyncOptions options;
  options.plan = plan_of({.plan = std::string(plan),
                          .sparsifier = "none",
                          .feedback = "none",
                          .collective = "dense:by=native"});
  return options;
}

// One bucket of all gradients, in the order of backward, as DDP has it, or in
// the other one.
struct Bucketful {
  std::shared_ptr<std::vector<float>> memory =
      std::make_shared<std::vector<float>>(total_size());
  std::vector<float*> places = std::vector<float*>(kTensors.size());

  explicit Bucketful(bool backward = true) {
    float* next = memory->data();
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      const std::size_t t = backward ? kTensors.size() - 1 - i : i;
      places[t] = next;
      next += size_of(kTensors[t]);
    }
  }
  void set(const Gradients& gradients) {
    for (std::size_t t = 0; t < kTensors.size(); ++t) {
      std::ranges::copy(gradients[t], places[t]);
    }
  }
  void announce(GradientSync& sync, std::size_t t, bool scratch) {
    sync.ready(t, contiguous_view(places[t], kTensors[t].dims), {},
               scratch ? MemoryOwner(memory) : MemoryOwner());
  }
  void announce_all(GradientSync& sync, bool scratch = true) {
    for (std::size_t t = kTensors.size(); t-- > 0;) announce(sync, t, scratch);
  }
};

// As they are without scratch, on all ranks.
TEST(NativeSums, AreTheSameWhereGradientsAre) {
  SumHub hub(3, 0);
  auto ranks = summing_ranks(3, hub);
  std::vector<std::vector<float>> means(3);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_cpu_backend();
    GradientSync sync(*ranks[r], *backend, kTensors, dense_options("single"));
    for (std::uint64_t step = 0; step < 3; ++step) {
      Bucketful bucket;
      bucket.set(gradients_of(r, step));
      sync.begin(step);
      bucket.announce_all(sync);
      const SyncReport report = sync.finish();
      EXPECT_TRUE(report.committed);
      EXPECT_GE(report.traffic.bytes_sent, 4 * total_size());
      const std::array all = {gradients_of(0, step), gradients_of(1, step),
                              gradients_of(2, step)};
      for (std::size_t t = 0; t < kTensors.size(); ++t) {
        for (std::size_t i = 0; i < size_of(kTensors[t]); ++i) {
          double sum = 0;
          for (const Gradients& g : all) sum += g[t][i];
          ASSERT_NEAR(bucket.places[t][i], sum / 3, 1e-6);
        }
      }
      means[r] = *bucket.memory;
    }
  });
  EXPECT_EQ(means[0], means[1]);
  EXPECT_EQ(means[0], means[2]);
}

// Whether gradients are scratch, and how they lie there, may differ from rank
// to rank.
TEST(NativeSums, DoNotMindWhoPacks) {
  for (const bool backward : {true, false}) {
    SumHub hub(2, 0);
    auto ranks = summing_ranks(2, hub);
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_cpu_backend();
      GradientSync sync(*ranks[r], *backend, kTensors, dense_options("single"));
      Bucketful bucket(backward);
      bucket.set(gradients_of(r, 0));
      sync.begin(0);
      bucket.announce_all(sync, r == 0);
      EXPECT_TRUE(sync.finish().committed);
      const std::array all = {gradients_of(0, 0), gradients_of(1, 0)};
      for (std::size_t t = 0; t < kTensors.size(); ++t) {
        for (std::size_t i = 0; i < size_of(kTensors[t]); ++i) {
          ASSERT_FLOAT_EQ(bucket.places[t][i],
                          (all[0][t][i] + all[1][t][i]) / 2);
        }
      }
    });
  }
}

// The first is done when all three are under way.
TEST(NativeSums, RunBesideOneAnother) {
  const SyncOptions options = dense_options("layerwise");
  SumHub hub(2, options.plan.buckets.size() - 1);  // one of no elements
  auto ranks = summing_ranks(2, hub);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_cpu_backend();
    GradientSync sync(*ranks[r], *backend, kTensors, options);
    Bucketful bucket;
    bucket.set(gradients_of(r, 0));
    sync.begin(0);
    bucket.announce_all(sync);
    EXPECT_TRUE(sync.finish().committed);
    EXPECT_FLOAT_EQ(bucket.places[0][7],
                    (gradients_of(0, 0)[0][7] + gradients_of(1, 0)[0][7]) / 2);
  });
}

TEST(NativeSums, SeeWhatIsNotFinite) {
  SumHub hub(2, 0);
  auto ranks = summing_ranks(2, hub);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_cpu_backend();
    GradientSync sync(*ranks[r], *backend, kTensors, dense_options("single"));
    Bucketful bucket;
    Gradients gradients = gradients_of(r, 0);
    if (r == 1) gradients[2][5] = std::nanf("");
    bucket.set(gradients);
    sync.begin(0);
    bucket.announce_all(sync);
    const SyncReport report = sync.finish();
    EXPECT_FALSE(report.committed);
    EXPECT_EQ(report.nonfinite, 1U);
  });
}

// A rank gives up in the middle: the others hear why and go on, by messages
// from then on, and what a late sum writes to outlives all of them.
TEST(NativeSums, KeepWhatALateOneWritesTo) {
  SumHub hub(3, 0);
  auto ranks = summing_ranks(3, hub);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_cpu_backend();
    GradientSync sync(*ranks[r], *backend, kTensors,
                      dense_options("layerwise"));
    std::weak_ptr<std::vector<float>> late;
    {
      Bucketful bucket;
      late = bucket.memory;
      bucket.set(gradients_of(r, 0));
      sync.begin(0);
      if (r == 1) {
        bucket.announce(sync, 5, true);
        sync.give_up("backward threw");
      } else {
        bucket.announce_all(sync);
        EXPECT_THROW(sync.finish(), CommError);
      }
    }
    EXPECT_EQ(sync.recover(), Recovered::kFailed);
    Bucketful bucket;
    bucket.set(gradients_of(r, 1));
    sync.begin(0);
    bucket.announce_all(sync);
    EXPECT_TRUE(sync.finish().committed);
    // Of rank 1 there was one sum, which all ranks made.
    EXPECT_EQ(late.expired(), r == 1);
    float sum = 0;
    for (std::size_t q = 0; q < 3; ++q) sum += gradients_of(q, 1)[2][5];
    EXPECT_FLOAT_EQ(bucket.places[2][5], sum / 3);
  });
}

// Gradients that are nobody's scratch are what they were.
TEST(NativeSums, LeaveGradientsAloneThatAreNoScratch) {
  SumHub hub(2, 0);
  auto ranks = summing_ranks(2, hub);
  run_ranks(ranks, [&](std::size_t r) {
    auto backend = make_cpu_backend();
    GradientSync sync(*ranks[r], *backend, kTensors,
                      dense_options("layerwise"));
    Bucketful bucket;
    bucket.set(gradients_of(r, 0));
    const std::vector<float> before = *bucket.memory;
    sync.begin(0);
    if (r == 1) {
      bucket.announce(sync, 5, false);
      sync.give_up("backward threw");
    } else {
      bucket.announce_all(sync, false);
      EXPECT_THROW(sync.finish(), CommError);
    }
    EXPECT_EQ(sync.recover(), Recovered::kFailed);
    EXPECT_EQ(*bucket.memory, before);
  });
}

}  // namespace
}  // namespace sluice::testing
