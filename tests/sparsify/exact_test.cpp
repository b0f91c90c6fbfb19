// Exact rules against plain references, on data that breaks others.

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sluice/core/key.h"
#include "sluice/core/permutation.h"
#include "sluice/sparsify/adtopk.h"
#include "support.h"

namespace sluice::testing {
namespace {

Rig::Options rig_options(std::string sparsifier, std::vector<Dims> tensors,
                         std::string backend, std::size_t threads = 1) {
  Rig::Options o;
  o.sparsifier = std::move(sparsifier);
  o.tensors = std::move(tensors);
  o.backend = std::move(backend);
  o.threads = threads;
  return o;
}

class ExactSelection : public ::testing::TestWithParam<std::string> {};

// Warm and cold brackets, ties, zeros: the result is the reference's.
TEST_P(ExactSelection, TopkEqualsTheReference) {
  for (const std::string name : {"topk", "redsync-trimmed"}) {
    for (const std::size_t n : {9000, 300'000}) {
      for (const std::string& data : data_names()) {
        for (const double density : {0.0001, 0.001, 0.01, 0.2}) {
          Rig rig(rig_options(name, {{n}}, GetParam(), 2));
          std::vector<float> acc(n, 0);
          for (std::uint64_t step = 0; step < 4; ++step) {
            const auto g = make_data(data, n, step + 1);
            for (std::size_t i = 0; i < n; ++i) acc[i] += g[i];
            const Sent sent = rig.step(g, density);
            const auto k = std::max<std::size_t>(
                1, static_cast<std::size_t>(density * double(n)));
            ASSERT_EQ(sent.indices, reference_topk(acc, k))
                << name << " " << data << " n " << n << " density " << density
                << " step " << step;
            for (const std::uint32_t i : sent.indices) acc[i] = 0;
          }
        }
      }
    }
  }
}

// Scale jumps by a thousand, up and down: the warm bracket must fail safely.
TEST_P(ExactSelection, TopkStaysExactWhenTheScaleJumps) {
  constexpr std::size_t kSize = 200'000;
  Rig rig(rig_options("topk", {{kSize}}, GetParam()));
  std::vector<float> acc(kSize, 0);
  std::uint64_t failed = 0;
  const float scales[] = {1, 1, 1000, 1000, 1e-3F, 1, 1e10F, 1e-10F};
  for (std::uint64_t step = 0; step < std::size(scales); ++step) {
    // New shape as well as new scale: mostly zeros in every other step, and
    // once no tail at all, where the last steps tell of one.
    auto g = step % 2 == 0 ? gaussian(kSize, step + 1, scales[step])
                           : make_data("sparse", kSize, step + 1);
    for (std::size_t i = 0; i < kSize && step == 4; ++i) {
      g[i] = 1e7F + static_cast<float>(i * 7919 % kSize);
    }
    for (std::size_t i = 0; i < kSize; ++i) acc[i] += g[i];
    const Sent sent = rig.step(g, 0.01);
    ASSERT_EQ(sent.indices, reference_topk(acc, kSize / 100)) << step;
    for (const std::uint32_t i : sent.indices) acc[i] = 0;
    failed += sent.report.failed_brackets;
  }
  EXPECT_GT(failed, 0U);  // otherwise this tests nothing
}

// A value range so narrow that no sample separates its keys.
TEST_P(ExactSelection, TopkResolvesNarrowRanges) {
  constexpr std::size_t kSize = 200'000;
  std::vector<float> g(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    g[i] = 1.0F + 1.19e-7F * static_cast<float>((i * 7919) % 251);
  }
  Rig rig(rig_options("topk", {{kSize}}, GetParam()));
  EXPECT_EQ(rig.step(g, 0.01).indices, reference_topk(g, kSize / 100));
}

// The cut and what lies above the bracket differ by less than a bin of those
// that a device counts.
TEST_P(ExactSelection, TopkCutsAtTheTopOfItsBracket) {
  constexpr std::size_t kSize = 20'000;
  constexpr std::size_t kSelected = 100;
  for (const std::size_t near : {120, 183, 500}) {
    std::vector<float> g = gaussian(kSize, 1, 0.1F);
    for (std::size_t i = 0; i < near; ++i) {
      const std::uint32_t key =
          magnitude_key(2.0F) + static_cast<std::uint32_t>(i);
      g[i * 7919 % kSize] = i % 2 == 0 ? key_value(key) : -key_value(key);
    }
    Rig rig(rig_options("topk", {{kSize}}, GetParam()));
    EXPECT_EQ(rig.step(g, 0.005).indices, reference_topk(g, kSelected)) << near;
  }
}

std::vector<std::uint32_t> reference_rows(std::span<const float> x,
                                          const RowGeometry& rows) {
  std::vector<std::uint32_t> all;
  for (std::size_t slab = 0; slab < rows.slabs; ++slab) {
    for (std::size_t r = 0; r < rows.stride; ++r) {
      std::vector<float> row;
      const std::size_t base = slab * rows.length * rows.stride + r;
      for (std::size_t c = 0; c < rows.length; ++c) {
        row.push_back(x[base + c * rows.stride]);
      }
      for (const std::uint32_t c : reference_topk(row, rows.k)) {
        all.push_back(static_cast<std::uint32_t>(base + c * rows.stride));
      }
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST_P(ExactSelection, AdtopkEqualsTheReference) {
  const std::vector<Dims> shapes = {
      {2, 4, 2},       {40, 256},   {7, 1},   {1, 5000},       {30, 64, 9},
      {12, 100, 3, 3}, {3, 17, 70}, {300, 2}, {9, 1000, 5, 5}, {64, 128, 1, 1}};
  for (const Dims& dims : shapes) {
    const std::size_t n = shape3(dims).size();
    for (const std::string dim : {"1", "0", "longer"}) {
      for (const std::string& data : data_names()) {
        for (const double density : {0.01, 0.1, 0.5}) {
          Rig rig(rig_options("adtopk:dim=" + dim, {dims}, GetParam(), 2));
          std::vector<float> acc(n, 0);
          const RowGeometry rows = adtopk_rows(shape3(dims), dim, density);
          for (std::uint64_t step = 0; step < 3; ++step) {
            const auto g = make_data(data, n, step + 1);
            for (std::size_t i = 0; i < n; ++i) acc[i] += g[i];
            const Sent sent = rig.step(g, density);
            const auto expected =
                static_cast<std::size_t>(density * double(n)) >= n
                    ? reference_topk(acc, n)
                    : reference_rows(acc, rows);
            ASSERT_EQ(sent.indices, expected)
                << data << " " << ::testing::PrintToString(dims) << " dim "
                << dim << " density " << density << " step " << step;
            for (const std::uint32_t i : sent.indices) acc[i] = 0;
          }
        }
      }
    }
  }
}

// The vectors of the reference (docs/algorithms.md).
TEST_P(ExactSelection, AdtopkMatchesTheWorkedExample) {
  const float rows[2][2][4] = {{{1, -5, 3, -2}, {-8, 2, 0, 7}},
                               {{0, 4, -4, 2}, {1, -1, 1, 9}}};
  std::vector<float> x;
  for (const auto& slab : rows) {
    for (std::size_t c = 0; c < 4; ++c) {
      x.push_back(slab[0][c]);
      x.push_back(slab[1][c]);
    }
  }
  Rig half(rig_options("adtopk", {{2, 4, 2}}, GetParam()));
  EXPECT_EQ(half.step(x, 0.5).indices,
            (std::vector<std::uint32_t>{1, 2, 4, 7, 9, 10, 12, 15}));
  Rig one(rig_options("adtopk", {{2, 4, 2}}, GetParam()));
  EXPECT_EQ(one.step(x, 0.3).indices,
            (std::vector<std::uint32_t>{1, 2, 10, 15}));
  Rig global(rig_options("topk", {{2, 4, 2}}, GetParam()));
  EXPECT_EQ(global.step(x, 0.5).indices,
            (std::vector<std::uint32_t>{1, 2, 3, 4, 7, 10, 12, 15}));
}

TEST_P(ExactSelection, TopkMatchesTheWorkedExample) {
  Rig rig(rig_options("topk", {{6}}, GetParam()));
  const Sent sent = rig.step(std::vector<float>{0.5, -3, 2, -2, 0, 1}, 0.34);
  EXPECT_EQ(sent.indices, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(sent.values, (std::vector<float>{-3, 2}));
  EXPECT_EQ(rig.residual(), (std::vector<float>{0.5, 0, 0, -2, 0, 1}));
}

TEST_P(ExactSelection, InterleavedAlternatesWithTheStep) {
  const Dims dims = {20, 50};
  Rig rig(rig_options("adtopk-interleaved", {dims}, GetParam()));
  std::vector<float> acc(1000, 0);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const auto g = gaussian(1000, step + 1);
    for (std::size_t i = 0; i < 1000; ++i) acc[i] += g[i];
    const Sent sent = rig.step(g, 0.1);
    EXPECT_EQ(sent.indices,
              step % 2 == 0
                  ? reference_rows(acc, adtopk_rows(shape3(dims), "1", 0.1))
                  : reference_topk(acc, 100));
    for (const std::uint32_t i : sent.indices) acc[i] = 0;
  }
}

TEST_P(ExactSelection, TileEqualsTheReference) {
  const std::vector<Dims> shapes = {{64, 64}, {130, 200}, {1, 10'000},
                                    {10'000}, {65, 1},    {70, 3, 3, 3},
                                    {64, 65}, {200, 64}};
  for (const Dims& dims : shapes) {
    const Shape3 shape = shape3(dims);
    const std::size_t n = shape.size();
    const std::size_t cols = shape.c * shape.r;
    for (const std::string& data : data_names()) {
      const auto x = make_data(data, n, 3);
      Rig rig(rig_options("tile", {dims}, GetParam(), 2));
      const Sent sent = rig.step(x, 0.01);
      std::vector<std::uint32_t> expected;
      const bool flat = shape.d0 == 1;
      const std::size_t edge = flat ? 4096 : 64;
      for (std::size_t row = 0; row < shape.d0; row += 64) {
        for (std::size_t col = 0; col < cols; col += edge) {
          std::vector<std::uint32_t> at;
          std::vector<float> tile;
          for (std::size_t i = row; i < std::min(shape.d0, row + 64); ++i) {
            for (std::size_t j = col; j < std::min(cols, col + edge); ++j) {
              at.push_back(static_cast<std::uint32_t>(i * cols + j));
              tile.push_back(x[i * cols + j]);
            }
          }
          for (const std::uint32_t i : reference_topk(tile, 40)) {
            expected.push_back(at[i]);
          }
        }
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(sent.indices, expected)
          << data << " " << ::testing::PrintToString(dims);
    }
  }
}

TEST_P(ExactSelection, QuantizedAlternatesSignsAndSendsOneMean) {
  constexpr std::size_t kSize = 20'000;
  Rig rig(rig_options("redsync-quantized", {{kSize}}, GetParam()));
  std::vector<float> acc(kSize, 0);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const auto g = gaussian(kSize, step + 1);
    for (std::size_t i = 0; i < kSize; ++i) acc[i] += g[i];
    const float sign = step % 2 == 0 ? 1.0F : -1.0F;
    std::vector<float> one_sign = acc;
    for (float& v : one_sign) v = v * sign > 0 ? v : 0;
    const auto expected = reference_topk(one_sign, 200);
    const Sent sent = rig.step(g, 0.01);
    ASSERT_EQ(sent.indices, expected) << step;
    double mean = 0;
    for (const std::uint32_t i : expected) mean += double(acc[i]) / 200;
    for (const float v : sent.values) {
      ASSERT_NEAR(v, mean, 1e-5);
      ASSERT_EQ(v, sent.values[0]);
    }
    const auto after = rig.residual();
    for (const std::uint32_t i : expected) {
      ASSERT_NEAR(after[i], double(acc[i]) - mean, 1e-5);
    }
    acc = after;
  }
}

// Fewer entries of the wanted sign than k: no zeros, nothing of the other sign.
TEST_P(ExactSelection, QuantizedSendsOnlyWhatHasTheSign) {
  std::vector<float> x(1000, -1);
  x[10] = 2;
  x[500] = 3;
  Rig rig(rig_options("redsync-quantized", {{1000}}, GetParam()));
  EXPECT_EQ(rig.step(x, 0.01).indices, (std::vector<std::uint32_t>{10, 500}));
}

// Rows that were not touched between those that were: short of k, just k, one
// more, in rows of every form that a device knows; some of it not finite.
TEST_P(ExactSelection, AdtopkSendsOnlyWhatIsThereOfARow) {
  const std::vector<Dims> shapes = {
      {40, 64},       {40, 250}, {30, 500},    {12, 700},   {12, 1000},
      {6, 2000},      {6, 4000}, {3, 8000},    {3, 9001},   {2, 70'000},
      {12, 60, 3, 3}, {9, 33},   {4, 700, 20}, {2, 2000, 9}};
  for (const Dims& dims : shapes) {
    const std::size_t n = shape3(dims).size();
    const RowGeometry rows = adtopk_rows(shape3(dims), "1", 0.05);
    std::vector<float> x(n, 0);
    for (std::size_t row = 0; row < rows.slabs * rows.stride; ++row) {
      const std::size_t there = std::array<std::size_t, 5>{
          0, 1, rows.k, rows.k + 1, rows.length}[mix64(1, row) % 5];
      const std::size_t base =
          row / rows.stride * rows.length * rows.stride + row % rows.stride;
      for (std::size_t i = 0; i < there; ++i) {
        const std::size_t c = (i * 7 + row) % rows.length;
        const float bad = row % 2 == 0 ? NAN : -INFINITY;
        x[base + c * rows.stride] =
            mix64(2, row, i) % 8 == 0
                ? bad
                : key_value(static_cast<std::uint32_t>(1 + mix64(row, i) % 9));
      }
    }
    Rig rig(rig_options("adtopk", {dims}, GetParam(), 2));
    for (int step = 0; step < 2; ++step) {
      // What is not finite stays out; the rest of what was sent is new.
      ASSERT_EQ(rig.step(x, 0.05).indices, reference_rows(x, rows))
          << ::testing::PrintToString(dims) << " step " << step;
      rig.set_residual(std::vector<float>(n, 0));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactSelection,
                         ::testing::ValuesIn(backend_names()),
                         [](const auto& backend) {
                           return safe_name(backend.param);
                         });

TEST(Randomk, DrawsDistinctIndicesAlikeOnAllRanks) {
  auto options = rig_options("randomk", {{5000}, {300}}, "cpu/portable");
  Rig a(options);
  Rig b(options);
  options.seed = 8;
  Rig other(options);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Sent first = a.step(gaussian(5300, step), 0.01);
    const Sent second = b.step(gaussian(5300, step + 100), 0.01);
    EXPECT_EQ(first.indices, second.indices);
    EXPECT_EQ(first.indices.size(), 53U);
    EXPECT_NE(first.indices, other.step(gaussian(5300, step), 0.01).indices);
  }
}

// Each index is hit k / n of the time, within five standard deviations.
TEST(Randomk, DrawsUniformly) {
  for (const std::size_t n : {7, 100, 1000}) {
    const std::size_t k = std::max<std::size_t>(1, n / 10);
    constexpr std::size_t kSteps = 10'000;
    std::vector<double> hits(n, 0);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Permutation permutation(n, mix64(3, 4, step));
      std::set<std::uint64_t> seen;
      for (std::uint64_t j = 0; j < k; ++j) seen.insert(permutation(j));
      ASSERT_EQ(seen.size(), k);
      for (const std::uint64_t i : seen) hits[i] += 1;
    }
    const double p = static_cast<double>(k) / static_cast<double>(n);
    const double sigma = std::sqrt(kSteps * p * (1 - p));
    for (const double h : hits) EXPECT_NEAR(h, kSteps * p, 5 * sigma);
  }
}

TEST(Topk, WarmBracketHoldsOnDriftingData) {
  constexpr std::size_t kSize = 1'000'000;
  Rig rig(rig_options("topk", {{kSize}}, "cpu/" + std::string(cpu_isas()[0])));
  std::uint64_t failed = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto scale =
        static_cast<float>(0.8 + 0.45 * double(mix64(step) % 100) / 100);
    failed +=
        rig.step(gaussian(kSize, step + 1, scale), 0.01).report.failed_brackets;
  }
  EXPECT_LE(failed, 4U);
}

}  // namespace
}  // namespace sluice::testing
