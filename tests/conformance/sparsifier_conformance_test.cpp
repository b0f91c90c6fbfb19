// The law, for every sparsifier in the registry on every backend: a new row in
// the registry gets all of this without an edit here.

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/core/key.h"
#include "support.h"

namespace sluice::testing {
namespace {

struct Case {
  std::string sparsifier;
  std::string backend;
  std::size_t threads;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.sparsifier << " on " << c.backend << " with " << c.threads;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const SparsifierEntry& entry : sparsifiers()) {
    for (const std::string& backend : backend_names()) {
      cases.push_back({std::string(entry.name), backend, 1});
    }
    cases.push_back({std::string(entry.name), "cpu/portable", 3});
    cases.push_back(
        {std::string(entry.name), "cpu/" + std::string(cpu_isas()[0]), 2});
  }
  return cases;
}

class SparsifierConformance : public ::testing::TestWithParam<Case> {
 protected:
  Rig::Options options(std::vector<Dims> tensors) const {
    Rig::Options o;
    o.sparsifier = GetParam().sparsifier;
    o.backend = GetParam().backend;
    o.threads = GetParam().threads;
    o.tensors = std::move(tensors);
    return o;
  }
};

// Tensors of one, two and four dimensions, empty, tiny and odd ones.
std::vector<Dims> mixed_tensors() {
  return {{0}, {1}, {31}, {130, 70}, {16, 24, 3, 3}, {5, 0, 3}, {5000}, {3, 1}};
}

std::size_t total(const std::vector<Dims>& tensors) {
  std::size_t n = 0;
  for (const Dims& dims : tensors) n += shape3(dims).size();
  return n;
}

void expect_well_formed(const Sent& sent, std::size_t n) {
  ASSERT_EQ(sent.indices.size(), sent.report.selected);
  EXPECT_TRUE(std::is_sorted(sent.indices.begin(), sent.indices.end()));
  EXPECT_EQ(std::adjacent_find(sent.indices.begin(), sent.indices.end()),
            sent.indices.end());
  if (!sent.indices.empty()) {
    EXPECT_LT(sent.indices.back(), n);
  }
}

// fp32 values are sent as they are, so nothing is even rounded; a mean is not.
bool rounds_values(const std::string& sparsifier) {
  return sparsifier == "redsync-quantized";
}

TEST_P(SparsifierConformance, LosesNothingWhateverTheData) {
  const auto tensors = mixed_tensors();
  for (const std::string& data : data_names()) {
    for (const double density : {0.001, 0.01, 0.3, 1.0}) {
      Rig rig(options(tensors));
      std::vector<float> before = rig.residual();
      for (std::uint64_t step = 0; step < 4; ++step) {
        const auto g = make_data(data, total(tensors), step + 1);
        const Sent sent = rig.step(g, density);
        SCOPED_TRACE(data + " density " + std::to_string(density) + " step " +
                     std::to_string(step));
        expect_well_formed(sent, g.size());
        const auto after = rig.residual();
        const auto all = rebuild(sent, after);
        for (std::size_t i = 0; i < g.size(); ++i) {
          const float acc = before[i] + g[i];
          if (rounds_values(GetParam().sparsifier)) {
            const float mean = all[i] - after[i];
            const double most = 100 * std::abs(acc) + std::abs(mean) + 1e-28;
            ASSERT_NEAR(all[i], acc, 1e-6 * most) << i;
          } else {
            ASSERT_EQ(all[i], acc) << i;
          }
        }
        before = after;
      }
    }
  }
}

TEST_P(SparsifierConformance, HoldsItsBudget) {
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{31}, std::size_t{100'003}}) {
    for (const double density : {0.001, 0.01, 0.1}) {
      auto o = options({{1, n}});
      Rig rig(o);
      for (std::uint64_t step = 0; step < 6; ++step) {
        const Sent sent = rig.step(gaussian(n, step + 1), density);
        const auto k = static_cast<double>(sent.report.budget);
        SCOPED_TRACE(std::to_string(n) + " " + std::to_string(density));
        EXPECT_GE(k, 1);
        if (o.sparsifier == "none") {
          EXPECT_EQ(sent.indices.size(), n);
        } else if (o.sparsifier == "threshold") {
          EXPECT_LE(static_cast<double>(sent.indices.size()), 4 * k);
        } else if (o.sparsifier == "tile") {
          // As many per tile as a whole tile holds, edge tiles included.
          const auto per_tile = static_cast<std::size_t>(density * 4096);
          EXPECT_EQ(sent.indices.size(),
                    n / 4096 * per_tile + std::min(n % 4096, per_tile));
        } else {
          EXPECT_LE(static_cast<double>(sent.indices.size()),
                    std::max(2 * k, k + 1.0 + static_cast<double>(n / 4096)));
          if (k > 100) {
            EXPECT_GE(static_cast<double>(sent.indices.size()), k / 2);
          }
        }
      }
    }
  }
}

TEST_P(SparsifierConformance, NeverSelectsOrStoresWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const double density : {0.01, 0.5, 1.0}) {
    Rig rig(options({{40, 50}, {700}}));
    std::vector<float> before = gaussian(rig.size(), 9);
    rig.set_residual(before);
    for (std::uint64_t step = 0; step < 4; ++step) {
      auto g = gaussian(rig.size(), step + 1);
      const std::size_t bad[] = {0, 77, 1999, 2000, 2699};
      for (const std::size_t i : bad) g[i] = i % 2 == 0 ? kNan : -kInf;
      const Sent sent = rig.step(g, density);
      EXPECT_EQ(sent.report.nonfinite, std::size(bad));
      const auto after = rig.residual();
      for (const std::size_t i : bad) {
        EXPECT_EQ(after[i], before[i]) << "step " << step << " element " << i;
        EXPECT_FALSE(
            std::binary_search(sent.indices.begin(), sent.indices.end(), i));
      }
      for (std::size_t i = 0; i < after.size(); ++i) {
        ASSERT_TRUE(std::isfinite(after[i])) << i;
      }
      for (const float v : sent.values) ASSERT_TRUE(std::isfinite(v));
      before = after;
    }
  }
}

TEST_P(SparsifierConformance, SurvivesNothingButNonFiniteValues) {
  Rig rig(options({{40, 50}}));
  const std::vector<float> g(rig.size(),
                             std::numeric_limits<float>::quiet_NaN());
  for (int step = 0; step < 3; ++step) {
    const Sent sent = rig.step(g, 0.1);
    EXPECT_TRUE(sent.indices.empty());
    EXPECT_EQ(sent.report.nonfinite, g.size());
  }
  EXPECT_EQ(rig.residual(), std::vector<float>(rig.size(), 0));
}

// A zero of either sign costs nothing, and the smallest denormal is none.
TEST_P(SparsifierConformance, NeverSendsAZero) {
  for (const double density : {0.01, 0.3, 1.0}) {
    Rig rig(options({{40, 50}, {700}, {30, 8, 9}, {5000}}));
    const std::vector<float> zeros(rig.size(), -0.0F);
    rig.set_residual(zeros);
    for (int step = 0; step < 2; ++step) {
      const Sent sent = rig.step(zeros, density);
      EXPECT_TRUE(sent.indices.empty());
      EXPECT_EQ(sent.report.selected, 0U);
      EXPECT_GT(sent.report.budget, 0U);
    }
    std::vector<float> acc = rig.residual();
    EXPECT_EQ(acc, zeros);
    for (std::uint64_t step = 0; step < 4; ++step) {
      auto g = make_data("embedding", rig.size(), step + 1);
      for (std::size_t i = 0; i < g.size(); i += 97) g[i] = 0x1p-149F;
      g[50 * step] = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t i = 0; i < g.size(); ++i) acc[i] += g[i];
      const Sent sent = rig.step(g, density);
      for (const std::uint32_t i : sent.indices) ASSERT_NE(acc[i], 0) << i;
      EXPECT_FALSE(sent.indices.empty());
      const bool all = density == 1 || GetParam().sparsifier == "none";
      if (all && GetParam().sparsifier != "threshold") {
        EXPECT_EQ(sent.indices, reference_topk(acc, acc.size()));
      }
      acc = rig.residual();
    }
  }
}

TEST_P(SparsifierConformance, SelectsAlikeOnEveryBackend) {
  const auto tensors = mixed_tensors();
  auto reference = options(tensors);
  reference.backend = "cpu/portable";
  reference.threads = 1;
  Rig ours(options(tensors));
  Rig plain(reference);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const double density = step < 3 ? 0.01 : 0.05;
    const auto g = make_data(step == 5 ? "embedding" : "gaussian",
                             total(tensors), step + 1);
    const Sent a = ours.step(g, density);
    const Sent b = plain.step(g, density);
    ASSERT_EQ(a.indices, b.indices) << "step " << step;
    ASSERT_EQ(a.values, b.values) << "step " << step;
    ASSERT_EQ(ours.residual(), plain.residual()) << "step " << step;
  }
}

TEST_P(SparsifierConformance, TreatsTensorsOfABucketAlone) {
  const std::vector<Dims> tensors = {{64, 96}, {40, 30}, {2000}};
  Rig together(options(tensors));
  std::vector<std::unique_ptr<Rig>> alone;
  for (const Dims& dims : tensors) {
    // Ids count from 0 in each rig: only the first tensor draws alike.
    alone.push_back(std::make_unique<Rig>(options({dims})));
  }
  for (std::uint64_t step = 0; step < 4; ++step) {
    const auto g = gaussian(total(tensors), step + 1);
    const Sent all = together.step(g, 0.02);
    std::size_t base = 0;
    std::vector<std::uint32_t> joined;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::size_t n = shape3(tensors[t]).size();
      const Sent one = alone[t]->step(std::span(g).subspan(base, n), 0.02);
      for (const std::uint32_t i : one.indices) {
        joined.push_back(i + static_cast<std::uint32_t>(base));
      }
      base += n;
      const bool draws =
          GetParam().sparsifier == "randomk" || GetParam().sparsifier == "dgc";
      if (draws) break;
    }
    const auto end = std::lower_bound(all.indices.begin(), all.indices.end(),
                                      static_cast<std::uint32_t>(base));
    EXPECT_EQ(joined, std::vector<std::uint32_t>(all.indices.begin(), end));
  }
}

TEST_P(SparsifierConformance, RejectsDensitiesOutsideTheRange) {
  Rig rig(options({{4, 5}}));
  const std::vector<float> g(rig.size(), 1);
  for (const double density :
       {0.0, -0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      rig.step(g, density);
      FAIL() << density;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(
                    "density must be above 0 and at most 1, got"),
                std::string::npos)
          << e.what();
    }
  }
}

TEST_P(SparsifierConformance, ReportsWhatIsLostWithoutFeedback) {
  auto o = options({{50, 40}});
  o.feedback = "none";
  Rig rig(o);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto g = gaussian(rig.size(), step + 1);
    const Sent sent = rig.step(g, 0.05);
    double lost = 0;
    for (const float v : g) lost += std::abs(double(v));
    for (const std::uint32_t i : sent.indices) lost -= std::abs(double(g[i]));
    EXPECT_NEAR(sent.report.lost, lost, 1e-6 * static_cast<double>(rig.size()));
    EXPECT_EQ(rig.residual(), std::vector<float>(rig.size(), 0));
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return safe_name(info.param.sparsifier + "_" + info.param.backend + "_" +
                   std::to_string(info.param.threads));
}

INSTANTIATE_TEST_SUITE_P(Registry, SparsifierConformance,
                         ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace sluice::testing
