// No allocation after the first steps, for every sparsifier and feedback: every
// operator new and every mapping of pages is counted.

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <new>

#include "ranks.h"
#include "sluice/backend/cpu/scratch.h"
#include "sluice/codec/codec.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/sync/gradient_sync.h"
#include "support.h"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

// Not inlined: g++ would see free() meet new and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace sluice::testing {
namespace {

TEST(SteadyState, AllocatesNothing) {
  constexpr std::size_t kRows = 500;
  constexpr std::size_t kCols = 400;
  for (const SparsifierEntry& entry : sparsifiers()) {
    for (const FeedbackEntry& kept : feedbacks()) {
      auto backend = make_cpu_backend({2, ""});
      auto stream = backend->make_stream();
      Arena arena(*backend, kRows * kCols + 5000);
      Bucket bucket;
      bucket.add(0, {kRows, kCols, 1}, 0);
      bucket.add(1, {1, 5000, 1}, kRows * kCols);
      std::shared_ptr<const Sparsifier> sparsifier =
          make_sparsifier(entry.name);
      auto feedback =
          make_feedback(kept.name, {*backend, arena, bucket, sparsifier});
      Codec codec(*backend);
      Message message;
      Decoded decoded;
      SparseBlock received(*backend, bucket.size(), bucket.size(), 2);
      std::vector<std::vector<float>> data;
      for (std::uint64_t s = 0; s < 4; ++s) {
        data.push_back(gaussian(bucket.size(), s + 1));
      }
      std::size_t before = 0;
      std::size_t mapped = 0;
      // Ten steps to grow, so that every turn of every method has been taken;
      // then ten that must not.
      for (std::uint64_t step = 0; step < 20; ++step) {
        if (step == 10) {
          before = allocations.load();
          mapped = cpu::pages_mapped();
        }
        const float* g = data[step % 4].data();
        const std::array<TensorView, 2> views = {
            flat_view({g, kRows * kCols}),
            flat_view({g + kRows * kCols, 5000})};
        feedback->select(*stream, views, {step, 1000, 0.01, 7});
        backend->wait(codec.encode(*stream, feedback->staged(),
                                   feedback->forms(), message));
        backend->wait(codec.decode(*stream, message.bytes(), feedback->forms(),
                                   received, decoded));
        decoded.check("itself");
        feedback->commit(*stream);
      }
      EXPECT_EQ(allocations.load() - before, 0U)
          << entry.name << " " << kept.name;
      EXPECT_EQ(cpu::pages_mapped() - mapped, 0U)
          << entry.name << " " << kept.name;
    }
  }
}

// From ready() to the applied gradient, votes included: what engines of others
// allocate inside is theirs. Frames wait for slow ranks, so that a pool may
// need one more now and then; in one of a few spells nothing may be allocated.
TEST(SteadyState, AStepAllocatesNothing) {
  constexpr std::size_t kRanks = 3;
  // More than a cycle of every algorithm: oktopk's takes 64 steps.
  constexpr std::uint64_t kSpell = 70;
  constexpr std::uint64_t kSpells = 6;
  const std::vector<TensorInfo> tensors = {{"w", {60, 50}}, {"b", {60}}};
  for (const CollectiveEntry& entry : collectives()) {
    auto ranks = make_thread_ranks(kRanks);
    std::barrier<> meeting(kRanks);
    std::size_t least = ~std::size_t{0};
    run_ranks(ranks, [&](std::size_t r) {
      auto backend = make_cpu_backend({1, ""});
      SyncOptions options;
      BucketPlan sparse;
      sparse.tensors = {0};
      sparse.collective = entry.name;
      BucketPlan dense;
      dense.tensors = {1};
      dense.sparsifier = "none";
      dense.collective = "dense:by=ring";
      options.plan.buckets = {sparse, dense};
      GradientSync sync(*ranks[r], *backend, tensors, options);
      const std::vector<float> data = gaussian(3060, r + 1);
      std::vector<float> gradient(3060);
      std::size_t before = 0;
      for (std::uint64_t step = 0; step < kSpells * kSpell; ++step) {
        if (step % kSpell == 0) {
          meeting.arrive_and_wait();
          const std::size_t now = allocations.load();
          if (r == 0 && step > 0) least = std::min(least, now - before);
          before = now;
          meeting.arrive_and_wait();
        }
        std::copy(data.begin(), data.end(), gradient.begin());
        gradient[step % 3060] += 1;
        sync.begin(step);
        sync.ready(0, contiguous_view(gradient.data(), tensors[0].dims));
        sync.ready(1, contiguous_view(gradient.data() + 3000, tensors[1].dims));
        sync.finish();
      }
    });
    EXPECT_EQ(least, 0U) << entry.name;
  }
}

}  // namespace
}  // namespace sluice::testing
