// The statistical rules against the reference's formulas and tables.

#include <cmath>

#include "sluice/core/hash.h"
#include "sluice/core/key.h"
#include "sluice/sparsify/dgc.h"
#include "sluice/sparsify/sidco.h"
#include "sluice/sparsify/special_functions.h"
#include "sluice/sparsify/tail.h"
#include "support.h"

namespace sluice::testing {
namespace {

std::string best_cpu() { return "cpu/" + std::string(cpu_isas()[0]); }

double ratio(const std::string& sparsifier, std::span<const float> x,
             double density, std::size_t steps = 1) {
  Rig::Options o;
  o.sparsifier = sparsifier;
  o.backend = best_cpu();
  o.threads = 2;
  o.feedback = "none";
  o.tensors = {{x.size()}};
  Rig rig(o);
  double last = 0;
  for (std::size_t s = 0; s < steps; ++s) {
    const Sent sent = rig.step(x, density);
    last = static_cast<double>(sent.indices.size()) /
           static_cast<double>(sent.report.budget);
  }
  return last;
}

TEST(SpecialFunctions, MatchKnownValues) {
  EXPECT_NEAR(two_sided_normal_quantile(0.01), 2.5758293, 1e-6);
  EXPECT_NEAR(two_sided_normal_quantile(0.001), 3.2905267, 1e-6);
  EXPECT_NEAR(gamma_q(1, 2), std::exp(-2), 1e-14);
  EXPECT_NEAR(gamma_q(0.5, 1), std::erfc(1), 1e-14);
  EXPECT_NEAR(gamma_q(3, 2), std::exp(-2.0) * (1 + 2 + 2), 1e-14);
  for (const double a : {0.1, 0.5, 1.0, 1.355092, 10.0}) {
    for (const double q : {0.5, 0.01, 1e-6}) {
      EXPECT_NEAR(gamma_q(a, inverse_gamma_q(a, q)) / q, 1, 1e-8) << a;
    }
  }
}

TEST(Sidco, ThresholdsMatchTheFormulas) {
  const double mean = std::sqrt(2 / 3.14159265358979);
  EXPECT_NEAR(exponential_threshold(mean, 0.01), 3.67439, 1e-5);
  EXPECT_NEAR(pareto_threshold(mean, 0.363380, 0.01), 2.40313, 1e-5);
  EXPECT_NEAR(gamma_threshold(mean, 0.409390, 0.01, true), 3.16561, 1e-5);
  EXPECT_NEAR(gamma_threshold(mean, 0.409390, 0.01, false), 2.77973, 1e-5);
  // No spread, or kappa = 0: the exponential form.
  EXPECT_DOUBLE_EQ(pareto_threshold(2, 0, 0.1), exponential_threshold(2, 0.1));
  EXPECT_NEAR(pareto_threshold(2, 4, 0.1), exponential_threshold(2, 0.1), 1e-5);
  EXPECT_DOUBLE_EQ(gamma_threshold(2, -1, 0.1, true),
                   exponential_threshold(2, 0.1));
}

struct Row {
  const char* data;
  double density;
  const char* rule;  // e, p, gp exact or gp approximate
  double stages[4];
};

// k_hat / k in the limit of large n for one to four stages; see
// docs/algorithms.md.
constexpr Row kSidcoTable[] = {
    {"normal", .1, "e", {.66, 1.17, 1.21, 1.23}},
    {"normal", .1, "p", {.91, .94, .96, .96}},
    {"normal", .1, "gp", {.88, 1.09, 1.11, 1.11}},
    {"normal", .1, "ga", {1.54, 1.51, 1.53, 1.54}},
    {"normal", .01, "e", {.02, .63, 1.13, 1.30}},
    {"normal", .01, "p", {1.63, .92, .92, .94}},
    {"normal", .01, "gp", {.15, 1.06, 1.06, 1.08}},
    {"normal", .01, "ga", {.54, 1.46, 1.45, 1.49}},
    {"normal", .001, "e", {.00, .10, .70, 1.06}},
    {"normal", .001, "p", {6.88, 1.22, .90, .90}},
    {"normal", .001, "gp", {.004, 1.45, 1.03, 1.04}},
    {"normal", .001, "ga", {.04, 2.18, 1.42, 1.42}},
    {"laplace", .1, "e", {1, 1, 1, 1}},
    {"laplace", .01, "e", {1, 1, 1, 1}},
    {"laplace", .001, "e", {1, 1, 1, 1}},
    {"laplace", .1, "p", {1, 1, 1, 1}},
    {"laplace", .01, "p", {1, 1, 1, 1}},
    {"laplace", .001, "p", {1, 1, 1, 1}},
    {"laplace", .1, "gp", {.995, 1, 1, 1}},
    {"laplace", .01, "gp", {.979, 1, 1, 1}},
    {"laplace", .001, "gp", {.962, 1, 1, 1}},
    {"laplace", .1, "ga", {.984, .993, .993, .993}},
    {"laplace", .01, "ga", {.964, .993, .993, .993}},
    {"laplace", .001, "ga", {.944, .993, .993, .993}},
    {"gamma", .1, "e", {1.29, .92, .91, .90}},
    {"gamma", .1, "p", {1.27, 1.05, 1.04, 1.04}},
    {"gamma", .1, "gp", {.995, .997, .985, .98}},
    {"gamma", .1, "ga", {.62, .81, .80, .80}},
    {"gamma", .01, "e", {3.19, 1.10, .95, .90}},
    {"gamma", .01, "p", {1.09, 1.10, 1.08, 1.06}},
    {"gamma", .01, "gp", {.97, 1.04, 1.02, 1.00}},
    {"gamma", .01, "ga", {.43, .84, .82, .81}},
    {"gamma", .001, "e", {8.58, 1.48, 1.07, .97}},
    {"gamma", .001, "p", {.20, .95, 1.11, 1.09}},
    {"gamma", .001, "gp", {.95, .91, 1.05, 1.03}},
    {"gamma", .001, "ga", {.34, .75, .84, .83}},
    {"t3", .1, "e", {.85, .76, .71, .69}},
    {"t3", .1, "p", {.82, 1.01, 1.03, 1.04}},
    {"t3", .1, "gp", {.87, .92, .94, .94}},
    {"t3", .1, "ga", {.90, .95, .97, .98}},
    {"t3", .01, "e", {1.48, 1.17, .66, .50}},
    {"t3", .01, "p", {.81, .91, .99, 1.03}},
    {"t3", .01, "gp", {1.55, .83, .90, .93}},
    {"t3", .01, "ga", {1.61, .86, .93, .97}},
    {"t3", .001, "e", {4.70, 3.56, 1.16, .64}},
    {"t3", .001, "p", {1.35, .91, .92, .97}},
    {"t3", .001, "gp", {5.02, .84, .84, .88}},
    {"t3", .001, "ga", {5.18, .86, .87, .91}},
};

std::vector<float> table_data(const std::string& name, std::size_t n) {
  if (name == "normal") return gaussian(n, 11);
  if (name == "laplace") return laplace(n, 11);
  if (name == "gamma") return double_gamma(n, 11);
  return student3(n, 11);
}

TEST(Sidco, MeetsTheTableOfExpectedCounts) {
  constexpr std::size_t kSize = 1'000'000;
  std::string loaded;
  std::vector<float> x;
  for (const Row& row : kSidcoTable) {
    if (loaded != row.data) x = table_data(loaded = row.data, kSize);
    for (int stages = 1; stages <= 4; ++stages) {
      const std::string rule = row.rule;
      const std::string spec = "sidco-" + (rule == "ga" ? "gp" : rule) +
                               ":adapt=false,correct=false,sample=0,stages=" +
                               std::to_string(stages) +
                               (rule == "ga" ? ",exact_gamma=false" : "");
      const double expected = row.stages[stages - 1];
      const double k = row.density * kSize;
      const double tolerance =
          4 * std::max(1.0, expected) / std::sqrt(k) + 0.01 +
          (loaded == "t3" ? 0.05 * std::max(1.0, expected) : 0);
      EXPECT_NEAR(ratio(spec, x, row.density), expected, tolerance)
          << row.data << " " << row.density << " " << spec;
    }
  }
}

TEST(Sidco, AdaptationLeavesBadStartsBehind) {
  // One stage over-selects here and the paper's rule cannot leave it.
  struct Start {
    const char* spec;
    const char* data;
  };
  for (const Start start : {Start{"sidco-e", "t3"}, Start{"sidco-gp", "t3"},
                            Start{"sidco-p", "normal"}}) {
    const auto x = table_data(start.data, 200'000);
    const double last =
        ratio(std::string(start.spec) + ":stages=1,correct=false,sample=0", x,
              0.001, 60);
    EXPECT_GT(last, 0.5) << start.spec;
    EXPECT_LT(last, 1.7) << start.spec;
  }
}

TEST(Sidco, CorrectionBoundsEveryCount) {
  for (const std::string data : {"normal", "laplace", "gamma", "t3"}) {
    const auto x = table_data(data, 100'000);
    for (const std::string rule : {"sidco-e", "sidco-gp", "sidco-p"}) {
      for (const double density : {0.1, 0.01, 0.001}) {
        const double r = ratio(rule + ":stages=1,adapt=false", x, density);
        EXPECT_GE(r, 0.5) << rule << " " << data << " " << density;
        EXPECT_LE(r, 2.0) << rule << " " << data << " " << density;
      }
    }
  }
}

// The published Gaussian-k loop; docs/algorithms.md. The t3 cells need a
// quantile grid, since samples flip between branches.
TEST(Gaussiank, PublishedLoopMeetsTheTable) {
  struct Cell {
    const char* data;
    double density;
    double expected;
  };
  for (const Cell c : {Cell{"normal", .1, 1.0}, Cell{"normal", .01, 1.0},
                       Cell{"normal", .001, 1.0}, Cell{"laplace", .1, .977},
                       Cell{"laplace", .01, 6.51}, Cell{"laplace", .001, .930},
                       Cell{"gamma", .1, .914}, Cell{"gamma", .01, .968},
                       Cell{"gamma", .001, .342}}) {
    const auto x = table_data(c.data, 1'000'000);
    const double tolerance =
        4 * std::max(1.0, c.expected) / std::sqrt(c.density * 1e6) + 0.01 +
        0.02 * c.expected;
    EXPECT_NEAR(ratio("gaussiank:published=true,sample=0", x, c.density),
                c.expected, tolerance)
        << c.data << " " << c.density;
  }
}

TEST(Gaussiank, KeepsTheWindowOnAnyData) {
  for (const std::string data : {"normal", "laplace", "gamma", "t3"}) {
    const auto x = table_data(data, 1'000'000);
    for (const double density : {0.1, 0.01, 0.001}) {
      const double r = ratio("gaussiank", x, density);
      EXPECT_GE(r, 2.0 / 3) << data << " " << density;
      EXPECT_LE(r, 4.0 / 3 + 0.01) << data << " " << density;
    }
  }
}

// Tail and density of |x| for the distributions of the table.
struct Distribution {
  double (*tail)(double);
  double (*density)(double);
};

Distribution distribution(const std::string& data) {
  constexpr double kPi = 3.14159265358979324;
  if (data == "normal") {
    return {[](double t) { return std::erfc(t / std::sqrt(2.0)); },
            [](double t) { return std::sqrt(2 / kPi) * std::exp(-t * t / 2); }};
  }
  if (data == "laplace") {
    return {[](double t) { return std::exp(-t); },
            [](double t) { return std::exp(-t); }};
  }
  if (data == "gamma") {
    return {[](double t) { return std::erfc(std::sqrt(t)); },
            [](double t) { return std::exp(-t) / std::sqrt(kPi * t); }};
  }
  return {[](double t) {
            const double u = t / std::sqrt(3.0);
            return 1 - 2 / kPi * (u / (1 + u * u) + std::atan(u));
          },
          [](double t) {
            return 12 * std::sqrt(3.0) / (kPi * std::pow(3 + t * t, 2));
          }};
}

// a_i = isf((i + 1/2) / n); docs/algorithms.md. Ascending in p, so that
// Newton starts from the neighbour.
std::vector<float> quantile_grid(const std::string& data, std::size_t n) {
  const Distribution d = distribution(data);
  std::vector<float> x(n);
  double lo = 0;
  double hi = 1e4;
  for (int step = 0; step < 200; ++step) {
    const double t = (lo + hi) / 2;
    (d.tail(t) > 0.5 / static_cast<double>(n) ? lo : hi) = t;
  }
  double value = lo;
  for (std::size_t i = 0; i < n; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    for (int step = 0; step < 4; ++step) {
      const double next = value + (d.tail(value) - p) / d.density(value);
      value = next > 0 ? next : value / 2;
    }
    x[i] = static_cast<float>(i % 2 == 0 ? value : -value);
  }
  return x;
}

TEST(Gaussiank, PublishedLoopMeetsTheTableOnHeavyTails) {
  const auto x = quantile_grid("t3", 4'000'000);
  const double densities[] = {.1, .01, .001};
  const double expected[] = {1.22, .681, 1.02};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(ratio("gaussiank:published=true,sample=0", x, densities[i]),
                expected[i], 0.03)
        << densities[i];
  }
}

TEST(Redsync, PublishedSearchMeetsTheTable) {
  struct Line {
    const char* data;
    double expected[3];
  };
  constexpr std::size_t kSize = 4'000'000;
  for (const Line& line :
       {Line{"normal", {.131, 1.31, .315}}, Line{"laplace", {.572, .138, 1.38}},
        Line{"gamma", {.366, .086, .862}}, Line{"t3", {.0006, .006, .059}}}) {
    const auto x = quantile_grid(line.data, kSize);
    const double densities[] = {.1, .01, .001};
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(ratio("redsync:exact=false,sample=0", x, densities[i]),
                  line.expected[i], 0.02 * line.expected[i] + 0.0011)
          << line.data << " " << densities[i];
    }
  }
}

TEST(Redsync, SendsBetweenOneAndTwoBudgets) {
  for (const std::string data : {"normal", "laplace", "gamma", "t3"}) {
    const auto x = table_data(data, 1'000'000);
    for (const double density : {0.1, 0.01, 0.001}) {
      const double r = ratio("redsync", x, density);
      EXPECT_GE(r, 1.0) << data << " " << density;
      EXPECT_LE(r, 2.0) << data << " " << density;
    }
  }
}

TEST(Tail, CountsSmoothDataWithinAThousandth) {
  const auto x = quantile_grid("normal", 400'000);
  std::vector<std::uint32_t> histogram(kHistogramBins, 0);
  Answer answer;
  answer.moments.count = x.size();
  for (const float v : x) {
    ++histogram[magnitude_key(v) >> kHistogramShift];
    answer.moments.max_abs =
        std::max(answer.moments.max_abs, std::abs(double(v)));
  }
  std::vector<TailSums> sums(kHistogramBins + 1);
  answer.tails = sum_tails(histogram.data(), sums.data());
  const Tail tail(answer, x.size());
  for (const double t : {0.1, 0.5, 1.0, 2.0, 3.0}) {
    const double exact = std::erfc(t / std::sqrt(2.0)) * double(x.size());
    EXPECT_NEAR(tail.count_above(t) / exact, 1, 2e-3) << t;
  }
  // E[a - t | a > t] for the half normal at t = 1.
  EXPECT_NEAR(tail.excess_above(1).mean, 0.525135, 1e-3);
}

TEST(Dgc, AttributesMatchTheTable) {
  struct Line {
    std::uint64_t n;
    double density;
    DgcAttributes expected;
  };
  for (const Line& line : {
           Line{432, .001, {1, 432, 1, 1}},
           Line{432, .01, {1, 432, 5, 5}},
           Line{432, .05, {9, 48, 3, 22}},
           Line{2304, .001, {1, 2304, 3, 3}},
           Line{2304, .01, {9, 256, 3, 24}},
           Line{2304, .05, {57, 40, 2, 116}},
           Line{36864, .001, {17, 2168, 3, 37}},
           Line{36864, .01, {97, 380, 4, 369}},
           Line{36864, .05, {97, 380, 19, 1844}},
           Line{2359296, .001, {97, 24322, 25, 2360}},
           Line{2359296, .01, {97, 24322, 244, 23593}},
           Line{2359296, .05, {97, 24322, 1217, 117965}},
           Line{102760448, .001, {97, 1059386, 1060, 102761}},
           Line{102760448, .01, {97, 1059386, 10594, 1027605}},
           Line{102760448, .05, {97, 1059386, 52970, 5138023}},
       }) {
    const DgcAttributes a = dgc_attributes(line.n, line.density, 0.01);
    EXPECT_EQ(a.stride, line.expected.stride) << line.n << " " << line.density;
    EXPECT_EQ(a.samples, line.expected.samples) << line.n;
    EXPECT_EQ(a.sample_top, line.expected.sample_top) << line.n;
    EXPECT_EQ(a.budget, line.expected.budget) << line.n;
  }
}

// Whatever start the seed draws, the set is one that the reference allows.
TEST(Dgc, MatchesTheWorkedExample) {
  std::vector<float> x(432);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>((37 * i) % 432 + 1) * (i % 2 == 0 ? 1.0F : -1.0F);
  }
  bool saw_start_0 = false;
  bool saw_start_8 = false;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rig::Options o;
    o.sparsifier = "dgc";
    o.seed = seed;
    o.tensors = {{432}};
    Rig rig(o);
    const Sent sent = rig.step(x, 0.05);
    const std::uint64_t start = bounded(mix64(seed, 0, 0), 9);
    if (start == 0) {
      EXPECT_EQ(sent.indices.size(), 22U);
      saw_start_0 = true;
    }
    if (start == 8) {
      EXPECT_EQ(sent.indices.size(), 19U);
      saw_start_8 = true;
    }
    EXPECT_LE(sent.indices.size(), 22U);
    EXPECT_EQ(sent.indices, reference_topk(x, sent.indices.size()));
  }
  EXPECT_TRUE(saw_start_0 && saw_start_8);
}

TEST(Dgc, NeverExceedsItsBudget) {
  for (const std::string data : {"normal", "laplace", "gamma", "t3"}) {
    const auto x = table_data(data, 1'000'000);
    for (const double density : {0.1, 0.01, 0.001}) {
      const double r = ratio("dgc", x, density);
      EXPECT_LE(r, 1.0);
      EXPECT_GE(r, 0.8);
    }
  }
}

// The HPDC'24 alternation: even steps by rows, odd ones near k by threshold.
TEST(AdtopkThreshold, ReusesAndRefreshesItsThreshold) {
  Rig::Options o;
  o.sparsifier = "adtopk-threshold:warm=4";
  o.backend = best_cpu();
  o.tensors = {{100, 200}};
  o.total_steps = 80;
  Rig rig(o);
  std::size_t exact = 0;
  std::size_t reused = 0;
  std::size_t by_rows = 0;
  for (std::uint64_t step = 0; step < 80; ++step) {
    const Sent sent = rig.step(gaussian(20'000, step + 1), 0.01);
    bool rows = sent.indices.size() == 200;
    for (std::size_t i = 0; rows && i < 200; ++i) {
      rows = sent.indices[i] / 200 == i / 2;  // two in every row
    }
    if (step % 2 == 0) {
      EXPECT_TRUE(rows) << step;
    } else if (rows) {
      EXPECT_GT(step, 60U);
      ++by_rows;
    } else if (sent.indices.size() == 200) {
      ++exact;
    } else {
      EXPECT_LE(sent.indices.size(), 400U) << step;
      ++reused;
    }
  }
  EXPECT_GT(exact, 3U);
  EXPECT_GT(reused, 10U);
  EXPECT_LE(by_rows, 10U);
}

}  // namespace
}  // namespace sluice::testing
