#include "sluice/backend/cpu/kernels.h"

#include <cmath>
#include <limits>
#include <random>

#include "sluice/core/hash.h"
#include "sluice/core/key.h"
#include "support.h"

namespace sluice::testing {
namespace {

using cpu::Kernels;

std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> all;
  for (const Kernels* k :
       {cpu::avx512_kernels(), cpu::avx2_kernels(), cpu::portable_kernels()}) {
    if (k != nullptr) all.push_back(k);
  }
  return all;
}

// The plain version of the stream kernel.
struct Plain {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<float> memory;
  std::size_t hi = 0;
  std::size_t nonfinite = 0;
};

Plain plain_stream(std::span<const float> g, std::span<const float> r,
                   const cpu::StreamArgs& a) {
  Plain out;
  out.memory.assign(r.begin(), r.end());
  const std::size_t n = g.empty() ? r.size() : g.size();
  for (std::size_t i = 0; i < n; ++i) {
    float acc = 0;
    if (g.empty()) {
      acc = r[i];
    } else if (r.empty()) {
      acc = a.source.gamma * g[i];
    } else {
      acc = a.source.beta * r[i] + a.source.gamma * g[i];
    }
    if (!std::isfinite(acc)) {
      ++out.nonfinite;
      continue;
    }
    if (!r.empty()) out.memory[i] = acc;
    const bool side = a.source.sign == 0 || acc * float(a.source.sign) > 0;
    const std::uint32_t key = side ? magnitude_key(acc) : 0;
    if (key < a.lo) continue;
    out.indices.push_back(a.base + static_cast<std::uint32_t>(i));
    out.values.push_back(acc);
    if (key >= a.hi) {
      ++out.hi;
      if (!r.empty()) out.memory[i] = 0;
    }
  }
  return out;
}

std::vector<float> with_specials(std::vector<float> x, std::uint64_t seed) {
  const float specials[] = {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            0.0F,
                            -0.0F,
                            1e-45F,
                            3.4e38F};
  std::mt19937_64 rng(seed);
  for (std::size_t i = 0; i < x.size() / 20; ++i) {
    x[rng() % x.size()] = specials[rng() % 7];
  }
  return x;
}

TEST(Kernels, StreamEqualsThePlainVersion) {
  for (const Kernels* kernels : kernel_tables()) {
    for (const std::size_t n :
         {0, 1, 7, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 5000}) {
      for (int variant = 0; variant < 48; ++variant) {
        const std::size_t shift = variant % 3;  // misaligned starts
        auto g = gaussian(n + shift, n + 1);
        auto r = gaussian(n + shift, n + 2);
        if (variant % 2 == 1) {
          g = with_specials(g, 1);
        }
        const int mode = variant / 4 % 4;
        cpu::StreamArgs a;
        std::vector<float> memory = r;
        a.source.gradient = mode == 2 ? nullptr : g.data() + shift;
        a.source.memory = mode == 3 ? nullptr : memory.data() + shift;
        a.source.beta = mode == 1 ? 0.9F : 1.0F;
        a.source.gamma = mode == 1 ? 0.5F : 1.0F;
        a.source.sign = variant / 16 - 1;
        a.n = n;
        // Beyond 2^31: only the index arithmetic sees it.
        a.base = variant % 5 == 0 ? 0x80000005U : 3;
        a.lo = magnitude_key(1.0F);
        a.hi = magnitude_key(1.5F);
        a.many = variant % 4 >= 2;
        std::vector<std::uint32_t> indices(n + cpu::kSlack);
        std::vector<float> values(n + cpu::kSlack);
        a.out = {indices.data(), values.data(), n};
        const auto expected =
            plain_stream(mode == 2 ? std::span<const float>()
                                   : std::span<const float>(g).subspan(shift),
                         mode == 3 ? std::span<const float>()
                                   : std::span<const float>(r).subspan(shift),
                         a);
        const cpu::StreamResult got = kernels->stream(a);
        SCOPED_TRACE(std::string(kernels->name) + " n " + std::to_string(n) +
                     " variant " + std::to_string(variant));
        indices.resize(got.recorded);
        values.resize(got.recorded);
        ASSERT_EQ(indices, expected.indices);
        ASSERT_EQ(values, expected.values);
        ASSERT_EQ(got.hi, expected.hi);
        ASSERT_EQ(got.nonfinite, expected.nonfinite);
        if (mode != 3) {
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(memory[shift + i], expected.memory[i]) << i;
          }
        }
      }
    }
  }
}

// A list that fills up: what is recorded has left the memory, the rest has not.
TEST(Kernels, StreamLosesNothingWhenTheListOverflows) {
  for (const Kernels* kernels : kernel_tables()) {
    constexpr std::size_t kSize = 20'000;
    const auto g = gaussian(kSize, 3);
    std::vector<float> memory(kSize, 0);
    std::vector<std::uint32_t> indices(3000 + cpu::kSlack);
    std::vector<float> values(3000 + cpu::kSlack);
    cpu::StreamArgs a;
    a.source = {g.data(), memory.data()};
    a.n = kSize;
    a.lo = a.hi = magnitude_key(0.5F);
    a.out = {indices.data(), values.data(), 3000};
    const cpu::StreamResult got = kernels->stream(a);
    EXPECT_TRUE(got.overflow);
    EXPECT_LE(got.recorded, 3000U);
    std::vector<float> all = memory;
    for (std::size_t i = 0; i < got.recorded; ++i) {
      EXPECT_EQ(all[indices[i]], 0);
      all[indices[i]] = values[i];
    }
    EXPECT_EQ(all, g);
  }
}

TEST(Kernels, StreamStopsRecordingTiesAtTheCap) {
  for (const Kernels* kernels : kernel_tables()) {
    constexpr std::size_t kSize = 50'000;
    std::vector<float> g(kSize, 1.0F);
    g[40'000] = 2.0F;
    std::vector<float> memory(kSize, 0);
    std::vector<std::uint32_t> indices(8000 + cpu::kSlack);
    std::vector<float> values(8000 + cpu::kSlack);
    cpu::StreamArgs a;
    a.source = {g.data(), memory.data()};
    a.n = kSize;
    a.lo = magnitude_key(1.0F);
    a.hi = a.lo + 1;
    a.tie_cap = 100;
    a.out = {indices.data(), values.data(), 8000};
    const cpu::StreamResult got = kernels->stream(a);
    EXPECT_FALSE(got.overflow);
    EXPECT_EQ(got.hi, 1U);
    EXPECT_GE(got.recorded, 101U);
    EXPECT_LE(got.recorded, 100U + 1024 + 1);
    EXPECT_EQ(indices[99], 99U);
    EXPECT_EQ(indices[got.recorded - 1], 40'000U);
  }
}

TEST(Kernels, PatternEqualsThePlainVersion) {
  for (const Kernels* kernels : kernel_tables()) {
    for (const std::size_t stride : {1, 2, 3, 9, 15, 16, 17, 49, 64, 100}) {
      const std::size_t n = stride * 37;
      const auto g = with_specials(gaussian(n, stride), 2);
      const auto r = gaussian(n, stride + 1);
      std::vector<std::uint32_t> pattern(stride + 16);
      for (std::size_t j = 0; j < pattern.size(); ++j) {
        pattern[j] = magnitude_key(0.3F + float(j % stride) * 0.02F);
      }
      std::vector<float> memory = r;
      std::vector<std::uint32_t> indices(n + cpu::kSlack);
      std::vector<float> values(n + cpu::kSlack);
      const cpu::StreamResult got =
          kernels->pattern({{g.data(), memory.data()},
                            n,
                            11,
                            pattern.data(),
                            stride,
                            {indices.data(), values.data(), n}});
      std::size_t o = 0;
      std::size_t bad = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const float acc = r[i] + g[i];
        if (!std::isfinite(acc)) {
          ++bad;
          ASSERT_EQ(memory[i], r[i]);
          continue;
        }
        ASSERT_EQ(memory[i], acc);
        if (magnitude_key(acc) < pattern[i % stride]) continue;
        ASSERT_EQ(indices[o], i + 11) << kernels->name << " " << stride;
        ASSERT_EQ(values[o++], acc);
      }
      EXPECT_EQ(got.recorded, o);
      EXPECT_EQ(got.nonfinite, bad);
    }
  }
}

TEST(Kernels, GroupsEqualTheRemainder) {
  for (const Kernels* kernels : kernel_tables()) {
    for (const std::uint32_t stride : {1U, 2U, 9U, 49U, 64U, 1000U, 65537U}) {
      std::vector<std::uint32_t> indices;
      for (std::uint64_t i = 0; i < 1003; ++i) {
        // Also right below and at multiples, where a quotient could be off.
        const auto x = static_cast<std::uint32_t>(
            i % 3 == 0 ? mix64(i) % (1U << 24)
                       : (1U << 24) / stride * stride - i % 3 -
                             i / 3 * stride % (1U << 23));
        indices.push_back(x % (1U << 24) + 77);
      }
      for (const unsigned shift : {0U, 6U}) {
        std::vector<std::uint32_t> groups(indices.size());
        kernels->groups_of(indices.data(), indices.size(), 77, stride, shift,
                           groups.data());
        for (std::size_t i = 0; i < indices.size(); ++i) {
          ASSERT_EQ(groups[i], ((indices[i] - 77) % stride) >> shift)
              << kernels->name << " " << indices[i] - 77 << " % " << stride;
        }
      }
    }
  }
}

TEST(Kernels, SmallSelectionsEqualTheReference) {
  for (const Kernels* kernels : kernel_tables()) {
    for (std::size_t m = 1; m <= cpu::kSmall; ++m) {
      for (const int kind : {0, 1, 2}) {
        std::vector<float> values(m + 2 * cpu::kSlack, 99);
        std::vector<std::uint32_t> indices(m + 2 * cpu::kSlack, 99);
        const auto x = gaussian(m, m + 1);
        for (std::size_t i = 0; i < m; ++i) {
          values[i] = kind == 0 ? x[i] : kind == 1 ? float(1 + i % 3) : 0.5F;
          indices[i] = static_cast<std::uint32_t>(10 * i);
        }
        std::vector<std::uint32_t> keys;
        for (const float v : values) keys.push_back(magnitude_key(v));
        for (std::size_t k = 1; k <= m; k += 1 + m / 5) {
          const auto expected = reference_topk(std::span(values).first(m), k);
          std::vector<std::uint32_t> got(k + cpu::kSlack);
          std::vector<float> taken(k + cpu::kSlack);
          kernels->top_small({indices.data(), values.data(), m}, m, k,
                             got.data(), taken.data());
          std::size_t at_cut = 0;
          const cpu::Cut cut = kernels->cut_small(keys.data(), m, k);
          for (std::size_t i = 0; i < k; ++i) {
            ASSERT_EQ(got[i], 10 * expected[i]) << kernels->name << " " << m;
            ASSERT_EQ(taken[i], values[expected[i]]);
            ASSERT_GE(keys[expected[i]], cut.key);
            at_cut += keys[expected[i]] == cut.key ? 1 : 0;
          }
          ASSERT_EQ(at_cut, cut.quota);
        }
      }
    }
  }
}

TEST(Kernels, StatisticsAgreeWithDoubleArithmeticAndEachOther) {
  const auto x = with_specials(gaussian(10'007, 5), 3);
  Moments expected;
  for (const float v : x) {
    if (!std::isfinite(v)) {
      ++expected.nonfinite;
      continue;
    }
    ++expected.count;
    expected.sum += double(v);
    expected.sum_abs += std::abs(double(v));
    expected.sum_sq += double(v) * double(v);
    expected.max_abs = std::max(expected.max_abs, std::abs(double(v)));
  }
  std::vector<Moments> all;
  for (const Kernels* kernels : kernel_tables()) {
    std::vector<std::uint32_t> keys(x.size());
    std::vector<std::uint32_t> histogram(kHistogramBins, 0);
    Moments m;
    cpu::Source source;
    source.gradient = x.data();
    kernels->statistics(source, x.size(), true, keys.data(), histogram.data(),
                        m);
    EXPECT_EQ(m.count, expected.count);
    EXPECT_EQ(m.nonfinite, expected.nonfinite);
    EXPECT_NEAR(m.sum_abs / expected.sum_abs, 1, 1e-12);
    EXPECT_NEAR(m.sum_sq / expected.sum_sq, 1, 1e-12);
    EXPECT_EQ(m.max_abs, expected.max_abs);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(keys[i], std::isfinite(x[i]) ? magnitude_key(x[i]) : 0U);
    }
    std::uint64_t counted = 0;
    for (const std::uint32_t c : histogram) counted += c;
    EXPECT_EQ(counted, x.size());
    all.push_back(m);
  }
  for (const Moments& m : all) {
    EXPECT_EQ(m.sum, all[0].sum);
    EXPECT_EQ(m.sum_abs, all[0].sum_abs);
    EXPECT_EQ(m.sum_sq, all[0].sum_sq);
  }
}

}  // namespace
}  // namespace sluice::testing
