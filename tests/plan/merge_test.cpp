#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "sluice/cost/published.h"
#include "sluice/plan/merge_exact.h"
#include "support.h"

namespace sluice::testing {
namespace {

// OMGS on 1 GbE: gamma of its GPU, a and b of its all-gathers.
GroupCosts omgs_costs(double ranks, double density) {
  const double a = ranks == 4 ? 2.7e-3 : 1.1e-2;
  const double b = ranks == 4 ? 1.3e-8 : 1.7e-8;
  return [=](double x) {
    return GroupCost{published::topk_seconds(2.18896957e-10, x),
                     published::two_allgathers(ranks, density * x, a, b)};
  };
}

// In forward order; last is made first.
Chain omgs_chain() {
  Chain chain;
  chain.elements = {9408,    36864,   65536,   589824,
                    1048576, 2359296, 4194304, 8388608};
  chain.backward = {12e-3, 10e-3, 8e-3, 8e-3, 6e-3, 6e-3, 4e-3, 4e-3};
  std::reverse(chain.elements.begin(), chain.elements.end());
  std::reverse(chain.backward.begin(), chain.backward.end());
  return chain;
}

std::vector<std::size_t> sizes_of(const Groups& groups) {
  std::vector<std::size_t> sizes;
  for (const Group& g : groups) sizes.push_back(g.end - g.begin);
  return sizes;
}

using Sizes = std::vector<std::size_t>;

TEST(Merge, GivesTheTableOfOmgs) {
  struct Row {
    double ranks, density, best, alone, one, greedy;
    Sizes best_groups, greedy_groups;
  };
  const Row rows[] = {
      {4,
       .001,
       144.2139,
       144.2139,
       158.0114,
       146.7432,
       {1, 1, 1, 1, 1, 1, 1, 1},
       {2, 1, 1, 1, 1, 1, 1}},
      {4,
       .01,
       144.8357,
       158.8740,
       220.5078,
       182.9932,
       {1, 1, 1, 3, 2},
       {3, 3, 1, 1}},
      {16, .001, 164.7808, 258.5562, 203.9900, 203.9900, {1, 3, 4}, {8}},
      {16, .01, 453.4605, 585.4605, 530.8943, 530.8943, {1, 7}, {8}}};
  const Chain chain = omgs_chain();
  for (const Row& row : rows) {
    const GroupCosts ways[] = {omgs_costs(row.ranks, row.density)};
    const auto ms = [&](const Groups& groups) {
      return 1e3 * end_of(chain, groups, ways, false);
    };
    const Groups best = merge_exactly(chain, ways, false);
    const Groups greedy = merge_omgs(chain, ways[0]);
    EXPECT_EQ(sizes_of(best), row.best_groups);
    EXPECT_EQ(sizes_of(greedy), row.greedy_groups);
    EXPECT_NEAR(ms(best), row.best, 5e-5);
    EXPECT_NEAR(ms(each_alone(chain)), row.alone, 5e-5);
    EXPECT_NEAR(ms(all_together(chain)), row.one, 5e-5);
    EXPECT_NEAR(ms(greedy), row.greedy, 5e-5);
  }
}

Chain random_chain(std::mt19937& random, std::size_t count) {
  std::uniform_real_distribution<double> log_size(4, 7);
  std::uniform_real_distribution<double> seconds(0, 10e-3);
  Chain chain;
  for (std::size_t i = 0; i < count; ++i) {
    chain.elements.push_back(std::floor(std::pow(10, log_size(random))));
    chain.backward.push_back(seconds(random));
  }
  return chain;
}

// Every partition, every way for every group.
double brute_force(const Chain& chain, std::span<const GroupCosts> ways,
                   bool beside) {
  const std::size_t count = chain.elements.size();
  double best = 1e300;
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (count - 1); ++cuts) {
    Groups groups;
    for (std::size_t i = 0, begin = 0; i < count; ++i) {
      const bool last = i + 1 == count || (cuts >> i & 1) != 0;
      if (!last) continue;
      groups.push_back({begin, i + 1, 0});
      begin = i + 1;
    }
    while (true) {
      best = std::min(best, end_of(chain, groups, ways, beside));
      auto g = groups.begin();
      while (g != groups.end() && ++g->way == ways.size()) g++->way = 0;
      if (g == groups.end()) break;
    }
  }
  return best;
}

TEST(Merge, FindsTheBestPartition) {
  std::mt19937 random(1);
  for (int net = 0; net < 60; ++net) {
    const std::size_t count = 1 + random() % 12;
    Chain chain = random_chain(random, count);
    if (net % 3 == 0) chain.tail = 5e-3;
    if (net % 4 == 0) chain.last = 3e-3;
    const GroupCosts ways[] = {omgs_costs(net % 2 == 0 ? 4 : 16, 0.005)};
    for (const bool beside : {false, true}) {
      const auto end = [&](const Groups& groups) {
        return end_of(chain, groups, ways, beside);
      };
      const Groups best = merge_exactly(chain, ways, beside);
      EXPECT_NEAR(end(best), brute_force(chain, ways, beside), 1e-12);
      EXPECT_LE(end(best), end(merge_omgs(chain, ways[0])) + 1e-12);
    }
  }
}

// A second way that selects nothing and sends more, as dense buckets do.
TEST(Merge, FindsTheBestWayOfEveryGroup) {
  std::mt19937 random(2);
  for (int net = 0; net < 30; ++net) {
    const Chain chain = random_chain(random, 1 + random() % 7);
    const GroupCosts ways[] = {omgs_costs(16, 0.001), [](double x) {
                                 return GroupCost{0, 1e-3 + x * 2e-8};
                               }};
    for (const bool beside : {false, true}) {
      EXPECT_NEAR(
          end_of(chain, merge_exactly(chain, ways, beside), ways, beside),
          brute_force(chain, ways, beside), 1e-12);
    }
  }
}

// Far more than a table of all groups could hold.
TEST(Merge, TakesLongChains) {
  std::mt19937 random(4);
  Chain chain = random_chain(random, 20000);
  for (double& seconds : chain.backward) seconds *= 1e-3;
  const GroupCosts ways[] = {omgs_costs(4, 0.001)};
  const Groups best = merge_exactly(chain, ways, true);
  std::size_t next = 0;
  for (const Group& g : best) {
    EXPECT_EQ(g.begin, next);
    EXPECT_GT(g.end, g.begin);
    next = g.end;
  }
  EXPECT_EQ(next, chain.elements.size());
  const double end = end_of(chain, best, ways, true);
  EXPECT_LE(end, end_of(chain, each_alone(chain), ways, true));
  EXPECT_LE(end, end_of(chain, all_together(chain), ways, true));
}

// One link of latency 1 and no rate: by hand.
// Selection keeps pace with backward and the link idles: nearly no state is
// worse than another.
TEST(Merge, HasAnEndWhereBackwardHidesNearlyAll) {
  std::mt19937 random(5);
  Chain chain;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t rows = std::size_t{64} << random() % 5;
    chain.elements.push_back(double(rows * (64 << random() % 4) * 9));
    chain.backward.push_back(1e-4 + 1e-6 * double(random() % 700));
    chain.elements.push_back(double(rows));
    chain.backward.push_back(0);
  }
  const GroupCosts ways[] = {
      [](double x) {
        return GroupCost{1e-5 + 1e-9 * x, 2e-5 + 2e-10 * x};
      },
      [](double x) {
        return GroupCost{0, 3e-5 + 1.2e-9 * x};
      }};
  for (const bool beside : {true, false}) {
    const auto start = std::chrono::steady_clock::now();
    const double end =
        end_of(chain, merge_exactly(chain, ways, beside), ways, beside);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(10));
    for (const Groups& groups :
         {each_alone(chain), all_together(chain), merge_omgs(chain, ways[0])}) {
      EXPECT_LE(end, end_of(chain, groups, ways, beside));
    }
  }
}

TEST(Merge, MgwfbpMergesWhileTheLinkIsBusy) {
  const GroupCosts cost = [](double x) { return GroupCost{5, 1 + x}; };
  // The first is sent from 1 to 4; the second, made at 1.5, is but half a
  // latency late and merges; the third comes when the link is free for long.
  Chain chain;
  chain.elements = {2, 2, 1};
  chain.backward = {1, 0.5, 20};
  EXPECT_EQ(sizes_of(merge_mgwfbp(chain, cost, 1)), (Sizes{2, 1}));
  // With next to no latency nothing is gained by waiting.
  EXPECT_EQ(sizes_of(merge_mgwfbp(chain, cost, 0.1)), (Sizes{1, 1, 1}));
  // The link is busy with the first until long after the others are made.
  chain.backward = {1, 0.5, 0.5};
  EXPECT_EQ(sizes_of(merge_mgwfbp(chain, cost, 0.6)), (Sizes{3}));
}

}  // namespace
}  // namespace sluice::testing
