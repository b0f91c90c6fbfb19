#include <cmath>

#include "sluice/collective/sparse_allreduce.h"
#include "support.h"

namespace sluice::testing {
namespace {

Workload independent(double n, double k, double ranks) {
  Workload x{n, k, 0, ranks};
  x.u = independent_union(n, k, ranks);
  x.skew = kUnknownSkew;
  return x;
}

const Network kSlow = {50e-6, 8e-9};

TEST(CollectiveCosts, AreStatedByEveryCollective) {
  const auto rows = collective_costs();
  ASSERT_EQ(rows.size(), collectives().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CostRow& row = rows[i];
    EXPECT_EQ(row.name, collectives()[i].name);
    const Cost cost = row.of(independent(1e6, 1e4, 8), kSlow);
    EXPECT_GT(cost.seconds, 0) << row.name;
    EXPECT_GT(cost.bytes, 0) << row.name;
    EXPECT_GE(cost.seconds, cost.bytes * kSlow.beta) << row.name;
    EXPECT_EQ(row.of(independent(1e6, 1e4, 1), kSlow).seconds, 0) << row.name;
    const auto one = make_collective(row.name);
    EXPECT_EQ(row.exact, one->exact()) << row.name;
    EXPECT_EQ(row.dense, one->as_dense() != nullptr) << row.name;
    EXPECT_EQ(row.carries_bf16, one->carries(ValueForm::kBf16)) << row.name;
    EXPECT_EQ(row.carries_fp16, one->carries(ValueForm::kFp16)) << row.name;
  }
  EXPECT_THROW(find_cost(rows, "nobody"), std::invalid_argument);
}

// Along any of what costs depend on; ranks by doubling, since ranks between two
// powers of two take more rounds than the next power. `balanced` turns to lists
// by bytes, which may save seconds at once: there bytes must grow.
TEST(CollectiveCosts, GrowWithEverythingThatGrows) {
  for (const CostRow& row : collective_costs()) {
    const auto seconds = [&](double n, double k, double ranks,
                             const Network& net) {
      const Cost cost = row.of(independent(n, k, ranks), net);
      return row.name == "balanced" ? cost.bytes : cost.seconds;
    };
    const auto grows = [&](const std::string& along, auto&& at) {
      double last = 0;
      for (int i = 0; i < 12; ++i) {
        const double now = at(std::exp2(i));
        // To rounding.
        EXPECT_GE(now, last * (1 - 1e-12)) << row.name << " " << along << i;
        last = now;
      }
    };
    grows("n", [&](double x) { return seconds(x * 2e4, 1e4, 8, kSlow); });
    grows("k", [&](double x) { return seconds(1e7, x * 1e3, 8, kSlow); });
    grows("P", [&](double x) { return seconds(1e7, 1e4, 2 * x, kSlow); });
    grows("alpha", [&](double x) {
      return seconds(1e6, 1e3, 8, {x * 1e-6, kSlow.beta});
    });
    grows("beta", [&](double x) {
      return seconds(1e6, 1e3, 8, {kSlow.alpha, x * 1e-11});
    });
  }
}

// Where headers and work at the ends do not count, rows are the literature's:
// so many times the bytes of a list or a vector.
TEST(CollectiveCosts, CountBytesAsTheLiteratureDoes) {
  constexpr double kN = 1e9;
  constexpr double kK = 1e6;
  const double list = coded_bytes(kK, kN);
  const auto bytes = [&](std::string_view name, double ranks) {
    return find_cost(collective_costs(), name)
        .of(independent(kN, kK, ranks), kSlow)
        .bytes;
  };
  for (const double p : {2.0, 4.0, 8.0, 32.0}) {
    EXPECT_NEAR(bytes("dense", p), 8 * kN * (p - 1) / p, 1e-3 * kN);
    EXPECT_NEAR(bytes("dense-bf16", p), 4 * kN * (p - 1) / p, 1e-3 * kN);
    EXPECT_NEAR(bytes("allgather", p), (p - 1) * list, 1);
    EXPECT_NEAR(bytes("oktopk", p) / (2 * list * (p - 1) / p), 1, 0.1 * p);
    EXPECT_LE(bytes("balanced", p), bytes("allgather", p));
    EXPECT_GE(bytes("balanced", p),
              bound_bytes(independent(kN, kK, p)) * (1 - 1e-9));
    for (const CollectiveEntry& entry : collectives()) {
      if (entry.name == "gtopk") {
        EXPECT_NEAR(bytes("gtopk", p), std::log2(p) * list, 1);
        EXPECT_NEAR(bytes("gtopk-tree", p), std::log2(p) * list, 1);
      }
    }
  }
}

TEST(CollectiveCosts, SayWhoWinsWhere) {
  const auto best = [&](const Workload& x) {
    std::string_view winner = "dense";
    const auto seconds = [&](std::string_view name) {
      return find_cost(collective_costs(), name).of(x, kSlow).seconds;
    };
    for (const std::string_view name :
         {"allgather", "sparcml-rd", "balanced"}) {
      if (seconds(name) < seconds(winner)) winner = name;
    }
    // Whichever it is, `auto` expects to take as long.
    EXPECT_EQ(seconds("auto"), seconds(winner));
    return winner;
  };
  // Unknown skew counts as the worst, which leaves sparcml-split out.
  EXPECT_EQ(best(independent(1e5, 1e2, 8)), "sparcml-rd");  // latency
  EXPECT_EQ(best(independent(25e6, 25e5, 8)), "balanced");  // bytes
  EXPECT_EQ(best(independent(1e6, 1e6, 4)), "dense");
}

}  // namespace
}  // namespace sluice::testing
