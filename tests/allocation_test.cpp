// No allocation after the first steps, for every sparsifier and feedback: every
// operator new and every mapping of pages is counted.

#include <atomic>
#include <cstdlib>
#include <new>

#include "sluice/backend/cpu/pages.h"
#include "sluice/codec/codec.h"
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

}  // namespace
}  // namespace sluice::testing
