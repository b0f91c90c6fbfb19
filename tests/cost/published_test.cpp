#include "sluice/cost/published.h"

#include <cmath>

#include "support.h"

namespace sluice::testing {
namespace {

using namespace published;

// gTop-k, in ms: 1 GbE, m = 25 * 2^20 elements of which a thousandth goes.
TEST(Published, GtopkTable) {
  const Link link = {0.436, 3.6e-5};
  constexpr double kAll = 25 << 20;
  constexpr double kSome = 26214;
  struct Row {
    double ranks, dense, allgather, tree, doubling;
  };
  for (const Row& row :
       {Row{4, 1418, 6.5, 9.3, 4.6}, Row{8, 1658, 14.5, 13.9, 7.0},
        Row{16, 1783, 30.1, 18.6, 9.3}, Row{32, 1855, 60.7, 23.2, 11.6},
        Row{128, 1983, 243, 32.5, 16.3}}) {
    EXPECT_NEAR(ring_allreduce(row.ranks, kAll, link), row.dense, 0.5);
    const double digit = row.ranks < 128 ? 0.05 : 0.5;
    EXPECT_NEAR(topk_allgather(row.ranks, kSome, link), row.allgather, digit);
    EXPECT_NEAR(gtopk_tree(row.ranks, kSome, link), row.tree, 0.05);
    EXPECT_NEAR(gtopk_doubling(row.ranks, kSome, link), row.doubling, 0.05);
  }
}

// The all-gather beats the tree below 8 ranks only.
TEST(Published, GtopkTreePaysFromEightRanks) {
  const Link link = {0.436, 3.6e-5};
  const auto better = [&](double ranks) {
    return gtopk_tree(ranks, 26214, link) < topk_allgather(ranks, 26214, link);
  };
  EXPECT_FALSE(better(4));
  EXPECT_TRUE(better(8));
}

Primitives hipress_costs(int nodes) {
  Primitives p;
  p.gather = nodes == 4   ? Primitive{2.7156e-6, .41930, .15573}
             : nodes == 8 ? Primitive{6.1167e-6, .80768, .28778}
                          : Primitive{1.2937e-5, 1.4406, .59503};
  p.broadcast = nodes == 4   ? Primitive{2.7157e-6, .22156, .14820}
                : nodes == 8 ? Primitive{6.1172e-6, .27285, .29666}
                             : Primitive{1.2915e-5, .45538, .58353};
  p.encode = {1.4133e-8, .058938, .05408};
  p.decode = {6.2041e-9, .13956, .07287};
  p.send = {8.5005e-7, .20337, .09766};
  return p;
}

constexpr double kRatio = 1.0 / 16;

// The fewest elements that are compressed, by bisection.
double break_even(Scheme scheme, int nodes) {
  const Primitives cost = hipress_costs(nodes);
  double no = 1;
  double yes = 1 << 24;
  while (yes - no > 1) {
    const double middle = std::floor((no + yes) / 2);
    const bool compress =
        secopa(scheme, cost, nodes, middle, kRatio).compress();
    (compress ? yes : no) = middle;
  }
  return yes;
}

TEST(Published, SecopaBreaksEvenWhereItDid) {
  struct Row {
    int nodes;
    double servers, ring;
    double servers_parts;  // at break-even, compressed; all others: one each
  };
  for (const Row& row : {Row{4, 683947, 672384, 1}, Row{8, 1274800, 1150636, 2},
                         Row{16, 2468295, 2146349, 5}}) {
    EXPECT_EQ(break_even(Scheme::kServers, row.nodes), row.servers);
    EXPECT_EQ(break_even(Scheme::kRing, row.nodes), row.ring);
    const Primitives cost = hipress_costs(row.nodes);
    const Choice servers =
        secopa(Scheme::kServers, cost, row.nodes, row.servers, kRatio);
    EXPECT_EQ(servers.raw.parts, row.nodes);
    EXPECT_EQ(servers.compressed.parts, row.servers_parts);
    const Choice ring =
        secopa(Scheme::kRing, cost, row.nodes, row.ring, kRatio);
    EXPECT_EQ(ring.raw.parts, row.nodes);
    EXPECT_EQ(ring.compressed.parts, row.nodes);
  }
}

TEST(Published, SecopaOfTheLargestTensorOfVgg19) {
  struct Row {
    int nodes;
    double raw, compressed, ring_raw, ring_compressed, digit;
  };
  for (const Row& row : {Row{4, 140.2, 11.95, 132.2, 11.70, 0.05},
                         Row{8, 158.2, 14.85, 155.7, 15.48, 0.05},
                         Row{16, 167.9, 18.93, 169.9, 21.01, 0.05}}) {
    const Primitives cost = hipress_costs(row.nodes);
    const Choice servers =
        secopa(Scheme::kServers, cost, row.nodes, 102760448, kRatio);
    const Choice ring =
        secopa(Scheme::kRing, cost, row.nodes, 102760448, kRatio);
    EXPECT_NEAR(servers.raw.seconds, row.raw, 0.05);
    EXPECT_NEAR(servers.compressed.seconds, row.compressed, 0.005);
    EXPECT_NEAR(ring.raw.seconds, row.ring_raw, 0.05);
    EXPECT_NEAR(ring.compressed.seconds, row.ring_compressed, 0.005);
    for (const Partitioned& p :
         {servers.raw, servers.compressed, ring.raw, ring.compressed}) {
      EXPECT_EQ(p.parts, row.nodes);
    }
  }
}

// LAGS, from the forward, backward and sparsification seconds of OMGS' table.
TEST(Published, LagsMostSpeedup) {
  EXPECT_NEAR(most_speedup(.090, .120, .1376), 1.53, 0.005);
  EXPECT_NEAR(most_speedup(.305, .524, .2368), 1.29, 0.005);
  EXPECT_NEAR(most_speedup(.076, .131, .3755), 1.29, 0.005);
  // As the paper writes it.
  const double r = 0.1376 / 0.120;
  EXPECT_DOUBLE_EQ(most_speedup(.090, .120, .1376),
                   1 + 1 / (.090 / .120 + std::max(r, 1 / r)));
}

}  // namespace
}  // namespace sluice::testing
