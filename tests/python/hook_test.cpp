#include "sluice/python/hook.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "sluice/comm/threads/threads.h"

namespace sluice {
namespace {

constexpr std::size_t kRanks = 3;

// Messages of rank 0 that are lost: one of a step, and one of what recovers it.
struct Lost {
  enum Phase { kBefore, kStep, kRecovery, kOver };

  static Fate decide(void* context, std::size_t from, std::size_t,
                     std::uint64_t) {
    auto& self = *static_cast<Lost*>(context);
    const bool in_step = self.phase == kStep;
    if (from != 0 || (!in_step && self.phase != kRecovery)) {
      return Fate::kDeliver;
    }
    const bool drops = in_step ? self.of_step++ == self.in_step
                               : self.of_recovery++ == self.in_recovery;
    return drops ? Fate::kDrop : Fate::kDeliver;
  }

  std::uint64_t in_step;
  std::uint64_t in_recovery;
  std::atomic<Phase> phase{kBefore};
  std::atomic<std::uint64_t> of_step{0};
  std::atomic<std::uint64_t> of_recovery{0};
};

// Rank 0 begins to lose messages when all ranks are there.
class Start {
 public:
  void wait(Lost& lost) {
    if (++there_ == kRanks) lost.phase = Lost::kStep;
    while (lost.phase == Lost::kBefore) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> there_{0};
};

// Those of four dimensions are channels-last.
at::Tensor as_it_lies(const at::Tensor& t) {
  return (t.dim() == 4 ? t.permute({0, 2, 3, 1}) : t).reshape({-1});
}

// As buckets have elements, and as they are kept.
at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& t : tensors) parts.push_back(as_it_lies(t));
  return at::cat(parts).to(at::kDouble);
}

struct Model {
  explicit Model(std::size_t rank) {
    for (const std::vector<std::int64_t>& dims :
         {std::vector<std::int64_t>{20, 30}, {30}, {10, 5, 2, 2}, {7}}) {
      const auto format = dims.size() == 4 ? at::MemoryFormat::ChannelsLast
                                           : at::MemoryFormat::Contiguous;
      // The last is sent whole, and has a mark in what is kept.
      const auto type = dims[0] == 7 ? at::kDouble : at::kFloat;
      at::Tensor p = at::zeros(dims, type).contiguous(format);
      const auto n = p.numel();
      brought.push_back(at::arange(n, type)
                            .mul(0.7 + static_cast<double>(rank))
                            .add(static_cast<double>(parameters.size()))
                            .sin_()
                            .reshape(dims)
                            .contiguous(format));
      p.mutable_grad() = brought.back().clone();
      parameters.push_back(p);
    }
  }

  NamedTensors named() const {
    NamedTensors out;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      out.push_back({"p" + std::to_string(i), parameters[i]});
    }
    return out;
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> out;
    for (const at::Tensor& p : parameters) out.push_back(p.grad());
    return out;
  }
  void bring() {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].mutable_grad() = brought[i].clone();
    }
  }

  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> brought;
};

// As DistributedDataParallel brings gradients: in two buckets, of copies of
// them or, as views, of what they are themselves.
struct Buckets {
  Buckets(Model& model, bool views) {
    add(model, {2, 1}, views);
    add(model, {0}, views);
    add(model, {3}, views);
  }

  void add(Model& model, const std::vector<std::size_t>& which, bool views) {
    std::vector<std::size_t> offsets;
    std::vector<std::size_t> lengths;
    std::vector<c10::IntArrayRef> sizes;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> gradients;
    std::size_t at = 0;
    for (const std::size_t i : which) {
      const at::Tensor& p = model.parameters[i];
      offsets.push_back(at);
      lengths.push_back(static_cast<std::size_t>(p.numel()));
      at += lengths.back();
      sizes.push_back(p.sizes());
      parameters.push_back(p);
      gradients.push_back(as_it_lies(p.grad()));
    }
    const at::Tensor buffer = at::cat(gradients);
    for (std::size_t k = 0; views && k < which.size(); ++k) {
      const at::Tensor& p = parameters[k];
      p.mutable_grad() = buffer.as_strided(
          p.sizes(), p.strides(), static_cast<std::int64_t>(offsets[k]));
    }
    all.emplace_back(all.size(), 3, buffer, offsets, lengths, sizes, parameters,
                     std::nullopt);
  }

  std::vector<c10d::GradBucket> all;
};

// What a rank has seen of a step of which a message was lost.
struct Seen {
  bool failed = false;
  bool failed_again = false;  // to recover
  bool as_it_was = true;      // what is dense, if the step was not made
  bool made = false;
  bool skipped = false;
  std::uint64_t steps = 0;
  at::Tensor mean;      // if it was
  at::Tensor residual;  // after recovery
  at::Tensor next;      // the mean of one step more
};

using Step = std::function<void(BucketHook&, Model&)>;

struct Job {
  double scale;
  Step step;
  // Rank 1 has a gradient that is not finite, so that all ranks skip the step.
  bool bad = false;
};

constexpr std::int64_t kBadPlace = 7;  // in the first tensor

std::vector<Seen> run(Lost& lost, const Job& job) {
  ManualClock clock;
  auto engines = make_thread_engines(kRanks, {&clock, &Lost::decide, &lost});
  Start start;
  std::vector<Seen> seen(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        Model model(r);
        if (job.bad && r == 1) {
          model.parameters[0].mutable_grad().view({-1})[kBadPlace] = NAN;
        }
        // With a plan that recovery has to send.
        BucketHook hook(std::move(engines[r]), model.named(),
                        R"({"sparsifier": "topk", "density": 0.1, "net": "",
                            "feedback": "residual", "collective": "allgather",
                            "plan": "auto", "timeout": 5, "seed": 1,
                            "device": "cpu", "threads": 1})");
        start.wait(lost);
        try {
          job.step(hook, model);
        } catch (const CommError&) {
          seen[r].failed = true;
        }
        const at::Tensor dense = model.parameters[1].grad();
        const at::Tensor wide = model.parameters[3].grad();
        if (seen[r].failed) {
          // As zero_grad() leaves them.
          for (at::Tensor& p : model.parameters) {
            p.mutable_grad() = at::Tensor();
          }
        }
        seen[r].made = !seen[r].failed;
        if (r == 0) lost.phase = Lost::kRecovery;
        bool told = false;
        const auto recover = [&] {
          seen[r].made = hook.recover() || seen[r].made;
          told = told || hook.runner().stats().find(
                             R"("recovered":"skipped")") != std::string::npos;
        };
        try {
          recover();
        } catch (const CommError&) {
          seen[r].failed_again = true;
        }
        if (r == 0) lost.phase = Lost::kOver;
        recover();
        const at::Tensor first = model.parameters[0].grad();
        seen[r].skipped = first.defined() && first.isnan().all().item<bool>();
        if (seen[r].skipped) {
          seen[r].made = false;
          EXPECT_TRUE(flat(model.gradients()).isnan().all().item<bool>());
          EXPECT_EQ(told, seen[r].failed);
        }
        seen[r].as_it_was =
            seen[r].made || seen[r].skipped ||
            (dense.equal(model.brought[1]) && wide.equal(model.brought[3]));
        if (seen[r].made) {
          seen[r].mean = flat(model.gradients()) / job.scale;
        }
        auto state = hook.runner().save();
        seen[r].residual =
            at::from_blob(state.residual.data(),
                          {static_cast<std::int64_t>(state.residual.size())},
                          at::kFloat)
                .to(at::kDouble);
        model.bring();
        ASSERT_TRUE(hook.step(at::full({}, job.scale)));
        seen[r].next = flat(model.gradients());
        seen[r].steps = hook.runner().steps();
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return seen;
}

// All ranks agree on what became of the step, and what was brought is in what
// came of it or is kept.
void check(const std::vector<Seen>& seen, const Job& job) {
  at::Tensor kept = at::zeros({837}, at::kDouble);
  at::Tensor there = at::zeros({837}, at::kDouble);
  for (std::size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(seen[r].made, seen[0].made);
    EXPECT_EQ(seen[r].skipped, seen[0].skipped);
    EXPECT_EQ(seen[r].steps, seen[0].made || seen[0].skipped ? 2U : 1U);
    EXPECT_TRUE(seen[r].as_it_was);
    EXPECT_TRUE(seen[r].next.equal(seen[0].next));
    kept.narrow(0, 0, 830) += seen[r].residual.narrow(0, 0, 830);
    at::Tensor brought = flat(Model(r).brought) / job.scale;
    if (job.bad && r == 1) brought[kBadPlace] = 0;
    there += brought;
  }
  if (testing::Test::HasFailure()) return;
  if (seen[0].made) {
    for (const Seen& s : seen) EXPECT_TRUE(s.mean.equal(seen[0].mean));
    kept += seen[0].mean * static_cast<double>(kRanks);
  } else {
    // What is dense or wide is where it was, with who brought it.
    there.narrow(0, 600, 30).zero_();
    there.narrow(0, 830, 7).zero_();
  }
  EXPECT_LT((kept - there).abs().max().item<double>(), 1e-5);
}

// Whichever message is lost, and whichever when they recover from that.
void check_all(const Job& job) {
  int failed = 0;
  int failed_again = 0;
  int made = 0;
  int skipped = 0;
  const auto any = [](const std::vector<Seen>& seen, bool Seen::*what) {
    return std::ranges::any_of(seen, what);
  };
  for (std::uint64_t first = 0;; ++first) {
    for (std::uint64_t second = 0;; ++second) {
      SCOPED_TRACE(testing::Message() << first << ", " << second);
      Lost lost{first, second};
      const std::vector<Seen> seen = run(lost, job);
      if (testing::Test::HasFailure()) return;
      if (!any(seen, &Seen::failed)) {
        EXPECT_GT(first, 3U);
        EXPECT_GT(failed, 0);
        EXPECT_GT(failed_again, failed);
        EXPECT_EQ(made > 0, !job.bad);
        EXPECT_EQ(skipped > 0, job.bad);
        return;
      }
      check(seen, job);
      made += seen[0].made ? 1 : 0;
      skipped += seen[0].skipped ? 1 : 0;
      if (any(seen, &Seen::failed_again)) {
        ++failed_again;
        continue;
      }
      ++failed;
      break;
    }
  }
}

void bring_buckets(BucketHook& hook, Model& model, bool views, double scale) {
  Buckets buckets(model, views);
  std::vector<BucketHook::Future> futures;
  for (c10d::GradBucket& b : buckets.all) {
    futures.push_back(hook.announce(b, {}, at::full({}, scale), {!views}));
  }
  for (const auto& f : futures) f->waitAndThrow();
  if (views) return;
  // What DistributedDataParallel does once they are there.
  for (const c10d::GradBucket& b : buckets.all) {
    for (std::size_t i = 0; i < b.getParameters().size(); ++i) {
      const at::Tensor p = b.getParameters()[i];
      p.mutable_grad() =
          b.getGradients()[i].as_strided(p.sizes(), p.strides()).clone();
    }
  }
}

TEST(BucketHook, AStepOfAllGradientsSurvivesEveryLostMessage) {
  for (const double scale : {1.0, 1024.0}) {
    check_all({scale, [&](BucketHook& hook, Model& model) {
                 for (std::size_t i = 0; i < model.parameters.size(); ++i) {
                   ASSERT_TRUE(
                       model.parameters[i].grad().equal(model.brought[i]));
                 }
                 hook.step(at::full({}, scale));
               }});
  }
}

TEST(BucketHook, BucketsOfCopiesSurviveEveryLostMessage) {
  check_all({1024.0, [](BucketHook& hook, Model& model) {
               bring_buckets(hook, model, false, 1024.0);
             }});
}

TEST(BucketHook, BucketsThatGradientsAreInSurviveEveryLostMessage) {
  check_all({1024.0, [](BucketHook& hook, Model& model) {
               bring_buckets(hook, model, true, 1024.0);
             }});
}

// A step that the ranks skip: a rank that has not heard of it must skip the
// step, too, and must not count it twice or not at all.
TEST(BucketHook, SkippedStepsSurviveEveryLostMessage) {
  check_all({1.0, [](BucketHook& hook, Model&) { hook.step({}); }, true});
  for (const bool views : {false, true}) {
    check_all({1024.0,
               [=](BucketHook& hook, Model& model) {
                 bring_buckets(hook, model, views, 1024.0);
               },
               true});
  }
}

}  // namespace
}  // namespace sluice
