// The passes over whole buckets, against plain loops, on the CPU and on the
// fake device; and what the fake device promises.

#include <atomic>
#include <cmath>
#include <thread>

#include "fake_device.h"
#include "sluice/backend/cpu/thread_pool.h"
#include "sluice/backend/sparse_block.h"
#include "sluice/core/half.h"
#include "sluice/core/hash.h"
#include "support.h"

namespace sluice::testing {
namespace {

// Arrays of a device, from and to the host.
class Bench {
 public:
  explicit Bench(const std::string& name)
      : backend(make_backend(name, 2)), stream(backend->make_stream()) {}

  template <class T>
  Buffer put(const std::vector<T>& values) {
    Buffer buffer = backend->allocate(values.size() * sizeof(T));
    backend->copy_in(*stream, buffer.data(), std::as_bytes(std::span(values)));
    return buffer;
  }
  template <class T>
  std::vector<T> get(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    backend->copy_out(*stream, std::as_writable_bytes(std::span(values)),
                      buffer.data());
    backend->wait(backend->record(*stream));
    return values;
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
};

constexpr std::size_t kFirst = 100'003;
constexpr std::size_t kSecond = 700;
constexpr std::size_t kThird = 1;
constexpr std::size_t kAll = kFirst + kSecond + kThird;

struct Picked {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

Picked make_picked(std::uint64_t seed) {
  Picked list;
  for (std::uint32_t j = 0; j < kAll; ++j) {
    if (mix64(seed, j) % 9 != 0) continue;
    list.indices.push_back(j);
    list.values.push_back(static_cast<float>(mix64(seed, j) % 100) - 50);
  }
  return list;
}

class BucketPasses : public ::testing::TestWithParam<std::string> {
 protected:
  BucketPasses() : bench_(GetParam()) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      lists_.push_back(make_picked(seed));
      SparseBlock& block = blocks_.emplace_back(*bench_.backend, kAll, 0, 1);
      block.assign(*bench_.backend, *bench_.stream, lists_.back().indices,
                   lists_.back().values);
      views_.push_back(block.view());
    }
  }

  // Memory of the first and the last segment; the second has none.
  std::vector<MemoryRange> ranges(const Buffer& memory) {
    auto* data = memory.data<float>();
    return {{data, 0, kFirst},
            {nullptr, kFirst, kSecond},
            {data + kFirst + kSecond, kFirst + kSecond, kThird}};
  }
  static bool has_memory(std::size_t j) {
    return j < kFirst || j >= kFirst + kSecond;
  }

  Bench bench_;
  std::vector<Picked> lists_;
  std::vector<SparseBlock> blocks_;
  std::vector<SparseView> views_;
};

TEST_P(BucketPasses, ScatterAndGatherEqualPlainLoops) {
  std::vector<float> expected = gaussian(kAll, 4);
  const Buffer memory = bench_.put(expected);
  bench_.backend->scatter(*bench_.stream,
                          {views_, ranges(memory), ScatterOp::kAdd, 0.5F});
  bench_.backend->scatter(
      *bench_.stream, {{views_.data(), 1}, ranges(memory), ScatterOp::kZero});
  const Buffer gathered =
      bench_.backend->allocate(lists_[1].indices.size() * sizeof(float));
  bench_.backend->gather(*bench_.stream,
                         {views_[1], ranges(memory), gathered.data<float>()});
  for (const Picked& list : lists_) {
    for (std::size_t i = 0; i < list.indices.size(); ++i) {
      const std::uint32_t j = list.indices[i];
      if (has_memory(j)) expected[j] += 0.5F * list.values[i];
    }
  }
  for (const std::uint32_t j : lists_[0].indices) {
    if (has_memory(j)) expected[j] = 0;
  }
  EXPECT_EQ(bench_.get<float>(memory), expected);
  const std::vector<float> got = bench_.get<float>(gathered);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint32_t j = lists_[1].indices[i];
    ASSERT_EQ(got[i], has_memory(j) ? expected[j] : 0.0F);
  }
}

// Lists and dense; plain fp32 and a transposed bf16 tensor.
TEST_P(BucketPasses, ApplyWritesEveryTensor) {
  constexpr std::size_t kRows = 35;
  const std::vector<std::size_t> dims = {kRows, kSecond / kRows};
  const Buffer first = bench_.put(std::vector<float>(kFirst, 7.0F));
  const Buffer second = bench_.put(std::vector<std::uint16_t>(kSecond, 1));
  const Buffer third = bench_.put(std::vector<float>(kThird, 7.0F));
  const Buffer bad = bench_.put(std::vector<std::uint64_t>{99});
  TensorView transposed = contiguous_view(second.data(), dims, DType::kBf16);
  transposed.strides[0] = 1;
  transposed.strides[1] = kRows;
  const std::vector<TensorView> targets = {
      flat_view({first.data<float>(), kFirst}), transposed,
      flat_view({third.data<float>(), kThird})};
  std::vector<float> sum(kAll);
  for (const Picked& list : lists_) {
    for (std::size_t i = 0; i < list.indices.size(); ++i) {
      sum[list.indices[i]] += 0.25F * list.values[i];
    }
  }
  std::vector<float> all = gaussian(kAll, 9);
  all[3] = INFINITY;
  all[kFirst + 2] = NAN;
  const Buffer dense = bench_.put(all);
  for (const bool is_dense : {false, true}) {
    bench_.backend->apply(*bench_.stream,
                          {is_dense ? std::span<const SparseView>() : views_,
                           is_dense ? dense.data<float>() : nullptr, targets,
                           0.25F, bad.data<std::uint64_t>()});
    const std::vector<float> a = bench_.get<float>(first);
    const auto b = bench_.get<std::uint16_t>(second);
    EXPECT_EQ(bench_.get<std::uint64_t>(bad)[0], is_dense ? 2U : 0U);
    for (std::size_t j = 0; j < kFirst; ++j) {
      ASSERT_EQ(a[j], is_dense ? 0.25F * all[j] : sum[j]) << j;
    }
    for (std::size_t j = 0; j < kSecond; ++j) {
      const std::size_t columns = kSecond / kRows;
      const float want = is_dense ? 0.25F * all[kFirst + j] : sum[kFirst + j];
      const std::uint16_t got = b[j % columns * kRows + j / columns];
      if (std::isnan(want)) {  // of which there are many
        ASSERT_TRUE(std::isnan(from_bf16(got))) << j;
      } else {
        ASSERT_EQ(got, to_bf16(want)) << j;
      }
    }
    EXPECT_EQ(bench_.get<float>(third)[0],
              is_dense ? 0.25F * all[kAll - 1] : sum[kAll - 1]);
  }
  bench_.backend->count_nonfinite(*bench_.stream, dense.data<float>(), kAll,
                                  bad.data<std::uint64_t>());
  EXPECT_EQ(bench_.get<std::uint64_t>(bad)[0], 2U);
}

TEST_P(BucketPasses, NarrowAndWidenAddUpInOrder) {
  constexpr std::size_t kSlots = 3;
  Bench bench(GetParam());
  const std::vector<float> values = gaussian(kFirst, 3);
  const Buffer in = bench.put(values);
  const Buffer words =
      bench.backend->allocate(kSlots * kFirst * sizeof(std::uint16_t));
  const Buffer rest = bench.backend->allocate(kFirst * sizeof(float));
  auto* word = words.data<std::uint16_t>();
  for (std::size_t s = 0; s < kSlots; ++s) {
    bench.backend->narrow(
        *bench.stream,
        {in.data<float>(), kFirst, word + s * kFirst, rest.data<float>()});
  }
  const Buffer sum = bench.backend->allocate(kFirst * sizeof(float));
  bench.backend->widen(*bench.stream, {.words = word,
                                       .slots = kSlots,
                                       .stride = kFirst,
                                       .n = kFirst,
                                       .own = in.data<float>(),
                                       .own_slot = 1,
                                       .out = sum.data<float>()});
  const std::vector<float> rests = bench.get<float>(rest);
  const std::vector<float> sums = bench.get<float>(sum);
  for (std::size_t i = 0; i < kFirst; ++i) {
    const float rounded = from_bf16(to_bf16(values[i]));
    ASSERT_EQ(rests[i], values[i] - rounded) << i;
    ASSERT_EQ(sums[i], rounded + values[i] + rounded) << i;
  }
}

TEST_P(BucketPasses, PackAddsResiduals) {
  const std::vector<float> g = gaussian(kAll, 1);
  const std::vector<float> r = gaussian(kAll, 2);
  const Buffer gradients = bench_.put(g);
  const Buffer residuals = bench_.put(r);
  const Buffer target = bench_.backend->allocate(kAll * sizeof(float));
  auto* at = gradients.data<float>();
  const std::vector<TensorView> sources = {
      flat_view({at, kFirst}), flat_view({at + kFirst, kSecond}),
      flat_view({at + kFirst + kSecond, kThird})};
  const std::vector<MemoryRange> memory = ranges(residuals);
  for (const bool adds : {false, true}) {
    bench_.backend->pack(
        *bench_.stream,
        {sources, adds ? memory : std::span<const MemoryRange>(),
         target.data<float>()});
    const std::vector<float> got = bench_.get<float>(target);
    for (std::size_t j = 0; j < kAll; ++j) {
      ASSERT_EQ(got[j], adds && has_memory(j) ? g[j] + r[j] : g[j]) << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BucketPasses,
                         ::testing::ValuesIn(device_names()),
                         [](const auto& b) { return safe_name(b.param); });

TEST(SparseBlock, TakesOnlyEntriesInOrder) {
  auto backend = make_backend("cpu/portable");
  auto stream = backend->make_stream();
  SparseBlock block(*backend, 10, 4, 1);
  const auto assign = [&](std::vector<std::uint32_t> indices) {
    const std::vector<float> values(indices.size(), 1.0F);
    block.assign(*backend, *stream, indices, values);
  };
  EXPECT_NO_THROW(assign({0, 3, 9}));
  EXPECT_THROW(assign({3, 0}), std::invalid_argument);
  EXPECT_THROW(assign({3, 3}), std::invalid_argument);
  EXPECT_THROW(assign({3, 10}), std::invalid_argument);
}

TEST(FakeDevice, StreamsWaitForEventsOfOthers) {
  auto backend = make_fake_device_backend({1, ""});
  auto first = backend->make_stream();
  auto second = backend->make_stream();
  const Buffer memory = backend->allocate(16);
  const std::vector<float> in = {1, 2, 3, 4};
  std::vector<float> out(4);
  backend->copy_in(*first, memory.data(), std::as_bytes(std::span(in)));
  backend->wait(*second, backend->record(*first));
  backend->copy_out(*second, std::as_writable_bytes(std::span(out)),
                    memory.data());
  backend->wait(backend->record(*second));
  EXPECT_EQ(out, in);
}

TEST(FakeDevice, RefusesMemoryOfTheHost) {
  auto backend = make_fake_device_backend({1, ""});
  auto stream = backend->make_stream();
  std::vector<float> host(4);
  EXPECT_THROW(backend->fill(*stream, host.data(), 4, 0), std::logic_error);
  const Buffer memory = backend->allocate_host(16);
  memory.data<float>()[0] = 1;  // the host's, so it may
}

// Two threads at once, each with a stream of its own.
TEST(FakeDevice, MayBeUsedByTwoThreads) {
  auto backend = make_fake_device_backend({1, ""});
  const auto work = [&](float value) {
    auto stream = backend->make_stream();
    const Buffer memory = backend->allocate(4000);
    std::vector<float> out(1000);
    for (int i = 0; i < 200; ++i) {
      backend->fill(*stream, memory.data<float>(), 1000, value);
      backend->copy_out(*stream, std::as_writable_bytes(std::span(out)),
                        memory.data());
      backend->wait(backend->record(*stream));
      ASSERT_EQ(out, std::vector<float>(1000, value));
    }
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
}

// A host access is caught while another thread is inside the device.
TEST(FakeDeviceDeathTest, HostAccessCrashesBesideWorkOfOthers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto backend = make_fake_device_backend({1, ""});
        const Buffer memory = backend->allocate(1 << 20);
        std::atomic<bool> inside{false};
        std::thread other([&] {
          auto stream = backend->make_stream();
          while (true) {
            backend->fill(*stream, memory.data<float>(), 1 << 18, 1);
            backend->wait(backend->record(*stream));
            inside = true;
          }
        });
        while (!inside) std::this_thread::yield();
        volatile float x = *memory.data<float>();
        (void)x;
        std::_Exit(0);
      },
      "");
}

TEST(ThreadPool, ThrowsWhatATaskThrew) {
  cpu::ThreadPool pool(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(pool.run(50,
                          [](std::size_t t) {
                            if (t == 17) throw std::runtime_error("no");
                          }),
                 std::runtime_error);
    std::atomic<int> done{0};
    pool.run(50, [&](std::size_t) { ++done; });
    EXPECT_EQ(done, 50);
  }
}

TEST(ThreadPool, ServesTwoCallers) {
  cpu::ThreadPool pool(2);
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      std::atomic<int> done{0};
      pool.run(20, [&](std::size_t) { ++done; });
      ASSERT_EQ(done, 20);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
}  // namespace sluice::testing
