#include "sluice/python/tentative.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "sluice/comm/threads/threads.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

constexpr std::size_t kRanks = 4;
constexpr std::size_t kElements = 500;

// A message of one rank that is lost, of those that it sends to discard.
struct Lost {
  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t) {
    auto& self = *static_cast<Lost*>(context);
    if (!self.on || from != self.from) return Fate::kDeliver;
    return self.seen++ == self.number ? Fate::kDrop : Fate::kDeliver;
  }

  std::size_t from = 0;
  std::uint64_t number = 0;
  std::atomic<bool> on{false};
  std::atomic<std::uint64_t> seen{0};
};

struct Seen {
  bool failed = false;
  bool as_before = false;
  std::uint64_t discards = 0;
  std::vector<float> next;  // the mean of one step more
};

class Rank {
 public:
  Rank(std::unique_ptr<Engine> engine)
      : comm_(std::move(engine)),
        backend_(make_cpu_backend({1, ""})),
        gradient_(kElements) {
    SyncOptions options;
    PlanInput in;
    in.sizes = {kElements};
    in.dense = {false};
    in.sparse.collective = "allgather";
    in.sparse.density = 0.1;
    options.plan = make_plan("single", in);
    const std::vector<TensorInfo> tensors = {{"w", {kElements}}};
    sync_ = std::make_unique<GradientSync>(comm_, *backend_, tensors, options);
    tentative_ = std::make_unique<Tentative>(comm_, *sync_);
  }

  void step() {
    for (std::size_t i = 0; i < kElements; ++i) {
      gradient_[i] =
          static_cast<float>((i * 37 + 11 * comm_.rank() + step_) % 101) - 50;
    }
    tentative_->begin_step();
    sync_->begin(step_++);
    sync_->ready(0, flat_view(gradient_));
    EXPECT_TRUE(sync_->finish().committed);
  }

  Seen discard(Lost& lost, std::barrier<>& all) {
    step();
    const std::vector<float> before = sync_->save().residual;
    tentative_->enter(step_);
    step();
    tentative_->leave();
    EXPECT_NE(sync_->save().residual, before);
    all.arrive_and_wait();
    lost.on = true;
    Seen seen;
    try {
      tentative_->discard();
    } catch (const CommError&) {
      seen.failed = true;
    }
    if (comm_.rank() == lost.from) lost.on = false;
    sync_->recover();
    tentative_->recover();
    seen.as_before = sync_->save().residual == before;
    seen.discards = tentative_->discards();
    step();
    seen.next = gradient_;
    return seen;
  }

 private:
  Communicator comm_;
  std::unique_ptr<Backend> backend_;
  std::vector<float> gradient_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<Tentative> tentative_;
  std::uint64_t step_ = 0;
};

std::vector<Seen> run(Lost& lost) {
  ManualClock clock;
  auto engines = make_thread_engines(kRanks, {&clock, &Lost::decide, &lost});
  std::barrier<> all(kRanks);
  std::vector<Seen> seen(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        seen[r] = Rank(std::move(engines[r])).discard(lost, all);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return seen;
}

// Whichever message is lost: after recovery all ranks have discarded, or none,
// and both happens.
TEST(Tentative, DiscardsOnAllRanksOrOnNone) {
  int none = 0;
  int all = 0;
  for (std::size_t from = 0; from < kRanks; ++from) {
    bool hit = true;
    for (std::uint64_t number = 0; hit; ++number) {
      SCOPED_TRACE(testing::Message()
                   << "message " << number << " of " << from);
      Lost lost;
      lost.from = from;
      lost.number = number;
      const std::vector<Seen> seen = run(lost);
      if (testing::Test::HasFailure()) return;
      hit = std::ranges::any_of(seen, &Seen::failed);
      for (const Seen& s : seen) {
        EXPECT_EQ(s.as_before, seen[0].as_before);
        EXPECT_EQ(s.discards, seen[0].as_before ? 1U : 0U);
        EXPECT_EQ(s.next, seen[0].next);
      }
      if (!hit) {
        EXPECT_TRUE(seen[0].as_before);
        EXPECT_GT(number, 0U);
        continue;
      }
      ++(seen[0].as_before ? all : none);
    }
  }
  EXPECT_GT(none, 0);
  EXPECT_GT(all, 0);
}

}  // namespace
}  // namespace sluice
