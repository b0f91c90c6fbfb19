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

// Memory of the host that passes for a device's, without the fake device's
// queues, which allocate.
class Elsewhere final : public Backend {
 public:
  std::string_view name() const override { return "elsewhere"; }
  bool is_host() const override { return false; }
  Buffer allocate(std::size_t n) override { return cpu_->allocate(n); }
  Buffer allocate_host(std::size_t n) override { return cpu_->allocate(n); }
  std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  Event record(Stream& s) override { return cpu_->record(s); }
  void wait(const Event& e) override { cpu_->wait(e); }
  void wait(Stream& s, const Event& e) override { cpu_->wait(s, e); }
  void copy_in(Stream& s, void* to, std::span<const std::byte> from) override {
    cpu_->copy_in(s, to, from);
  }
  void copy_out(Stream& s, std::span<std::byte> to, const void* at) override {
    cpu_->copy_out(s, to, at);
  }
  void fill(Stream& s, float* to, std::size_t n, float v) override {
    cpu_->fill(s, to, n, v);
  }
  void count_nonfinite(Stream& s, const float* v, std::size_t n,
                       std::uint64_t* count) override {
    cpu_->count_nonfinite(s, v, n, count);
  }
  void pack(Stream& s, const PackPass& p) override { cpu_->pack(s, p); }
  void select(Stream& s, const SelectPass& p) override { cpu_->select(s, p); }
  void momentum(Stream& s, const MomentumPass& p) override {
    cpu_->momentum(s, p);
  }
  void quantize(Stream& s, const QuantizePass& p) override {
    cpu_->quantize(s, p);
  }
  void narrow(Stream& s, const NarrowPass& p) override { cpu_->narrow(s, p); }
  void widen(Stream& s, const WidenPass& p) override { cpu_->widen(s, p); }
  void scatter(Stream& s, const ScatterPass& p) override {
    cpu_->scatter(s, p);
  }
  void gather(Stream& s, const GatherPass& p) override { cpu_->gather(s, p); }
  void apply(Stream& s, const ApplyPass& p) override { cpu_->apply(s, p); }
  void encode(Stream& s, const EncodePass& p) override { cpu_->encode(s, p); }
  void decode(Stream& s, const DecodePass& p) override { cpu_->decode(s, p); }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend({1, ""});
};

// From ready() to the applied gradient, votes included: what engines of others
// allocate inside is theirs. Frames wait for slow ranks, so that a pool may
// need one more now and then; in one of a few spells nothing may be allocated.
struct Spell {
  std::string collective;
  bool offload = false;
  std::vector<std::size_t> machine_of{};  // of a hierarchical plan
};

void expect_no_allocation(const Spell& how) {
  constexpr std::size_t kRanks = 3;
  // More than a cycle of every algorithm: oktopk's takes 64 steps.
  constexpr std::uint64_t kSpell = 70;
  constexpr std::uint64_t kSpells = 6;
  const std::vector<TensorInfo> tensors = {{"w", {60, 50}}, {"b", {60}}};
  auto ranks = make_thread_ranks(kRanks);
  std::barrier<> meeting(kRanks);
  std::size_t least = ~std::size_t{0};
  run_ranks(ranks, [&](std::size_t r) {
    std::unique_ptr<Backend> backend = std::make_unique<Elsewhere>();
    if (!how.offload) backend = make_cpu_backend({1, ""});
    SyncOptions options;
    BucketPlan sparse;
    sparse.tensors = {0};
    sparse.piece = {0, 2};
    sparse.turns = {"adtopk"};
    sparse.collective = how.collective;
    if (how.offload) sparse.device = "cpu";
    BucketPlan rest = sparse;
    rest.piece = {1, 2};
    BucketPlan dense;
    dense.tensors = {1};
    dense.sparsifier = "none";
    dense.collective = "dense:by=ring";
    options.plan.buckets = {sparse, rest, dense};
    options.plan.hierarchical = !how.machine_of.empty();
    options.machine_of = how.machine_of;
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
  EXPECT_EQ(least, 0U) << how.collective;
}

TEST(SteadyState, AStepAllocatesNothing) {
  for (const CollectiveEntry& entry : collectives()) {
    expect_no_allocation({std::string(entry.name)});
  }
}

TEST(SteadyState, AnOffloadedStepAllocatesNothing) {
  for (const char* collective : {"allgather", "balanced", "auto"}) {
    expect_no_allocation({collective, true});
  }
}

TEST(SteadyState, AStepOfMachinesAllocatesNothing) {
  for (const CollectiveEntry& entry : collectives()) {
    expect_no_allocation({std::string(entry.name), false, {0, 0, 1}});
  }
}

}  // namespace
}  // namespace sluice::testing
