// The law, for every collective in the registry, any number of ranks and every
// kind of support: a new row in the registry gets all of this.

#include <algorithm>
#include <bit>
#include <cmath>

#include "exchanger.h"
#include "ranks.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/collective/vote.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/core/hash.h"
#include "staged_link.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::uint64_t kSize = 600;

struct RankResult {
  std::vector<float> sum;
  std::vector<float> returned;
  std::string error;
};

// What a rank selected and what stayed behind. Whole numbers, so that sums are
// exact in any order.
struct Input {
  Picks selected;
  std::vector<float> rest;
};

std::vector<std::string> support_names() {
  return {"random", "disjoint", "identical", "skewed", "empty-some",
          "one",    "few",      "all",       "uneven", "none"};
}

Input make_input(const std::string& support, std::size_t rank, std::size_t size,
                 std::uint64_t step = 0) {
  Input in;
  in.rest.resize(kSize);
  const auto value = [&](std::uint64_t j) {
    return static_cast<float>(
        static_cast<int>(mix64(rank + 100 * step, j) % 2001) - 1000);
  };
  for (std::uint64_t j = 0; j < kSize; ++j) {
    const std::uint64_t h = mix64(7 + step, rank, j);
    bool take = false;
    if (support == "random") take = h % 10 == 0;
    if (support == "disjoint") take = j % size == rank && j % 7 == 0;
    if (support == "identical") take = j % 11 == 3;
    if (support == "skewed") take = j < 40 && h % 2 == 0;
    if (support == "empty-some") take = rank % 2 == 0 && h % 10 == 0;
    if (support == "one") take = j == 17 * rank % kSize;
    if (support == "few") take = j == 5 || j == 100 + rank;
    if (support == "all") take = true;
    if (support == "uneven") take = h % 100 < 3 * rank + 1;
    if (take) {
      in.selected.add(static_cast<std::uint32_t>(j), value(j));
    } else {
      in.rest[j] = static_cast<float>(static_cast<int>(h % 7) - 3);
    }
  }
  return in;
}

// By step, then by rank. Fewer steps where a rank fails.
using Steps = std::vector<std::vector<RankResult>>;

Steps run_steps(const std::string& name, const std::string& backend,
                std::size_t size, const std::string& support,
                std::uint64_t steps, const ThreadRankOptions& options = {}) {
  auto ranks = make_thread_ranks(size, options);
  LinkHub hub;
  Steps results(steps, std::vector<RankResult>(size));
  run_ranks(ranks, [&](std::size_t r) {
    auto collective = make_collective(name);
    const auto device = make_backend(backend);
    const auto link = make_link(backend, hub, *ranks[r], *device);
    Exchanger exchanger(*device, link.get());
    for (std::uint64_t step = 0; step < steps; ++step) {
      const Input in = make_input(support, r, size, step);
      RankResult& out = results[step][r];
      try {
        exchanger.reduce(*collective, *ranks[r], in.selected,
                         {.n = kSize, .step = step, .rest = in.rest});
        out.sum = exchanger.sum();
        out.returned = exchanger.returned();
        collective->commit(
            vote_on(*ranks[r], step, true, in.selected.size()).totals[0]);
      } catch (const CommError& e) {
        out.error = e.what();
        return;
      }
    }
  });
  return results;
}

class CollectiveLaw : public ::testing::TestWithParam<
                          std::tuple<std::string, std::size_t, std::string>> {};

// Several steps, for what algorithms learn from one for the next.
TEST_P(CollectiveLaw, ConservesMassWithIdenticalBits) {
  const auto& [name, size, backend] = GetParam();
  constexpr std::uint64_t kSteps = 4;
  const bool exact = make_collective(name)->exact();
  for (const std::string& support : support_names()) {
    SCOPED_TRACE(support);
    const Steps run = run_steps(name, backend, size, support, kSteps);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      std::vector<double> selected(kSize, 0);
      std::vector<double> after(kSize, 0);
      for (std::size_t r = 0; r < size; ++r) {
        const RankResult& result = run[step][r];
        ASSERT_EQ(result.error, "");
        // Bits, so that zeros of either sign count as different.
        for (std::size_t j = 0; j < kSize; ++j) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(result.sum[j]),
                    std::bit_cast<std::uint32_t>(run[step][0].sum[j]))
              << "rank " << r << " index " << j;
          after[j] += double(result.returned[j]);
        }
        const Input in = make_input(support, r, size, step);
        for (std::size_t i = 0; i < in.selected.size(); ++i) {
          selected[in.selected.indices[i]] += double(in.selected.values[i]);
        }
      }
      // Whole numbers: nothing may be off by anything.
      for (std::size_t j = 0; j < kSize; ++j) {
        ASSERT_EQ(double(run[step][0].sum[j]) + after[j], selected[j])
            << "step " << step << " index " << j;
        if (exact) {
          ASSERT_EQ(after[j], 0);
        }
      }
    }
  }
}

// Every message of every rank lost or damaged once: nobody hangs, somebody
// notices, and no two ranks that finish disagree.
TEST_P(CollectiveLaw, NoticesEveryLostOrDamagedMessage) {
  const auto& [name, size, backend] = GetParam();
  if (size == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Fate fate : {Fate::kDrop, Fate::kCorrupt}) {
    for (std::size_t from = 0; from < size; ++from) {
      for (std::uint64_t number = 0;; ++number) {
        Injection injection(from, number, fate);
        ManualClock clock;
        const auto results = run_steps(name, backend, size, "random", 1,
                                       injection.options(clock))[0];
        if (!injection.hit) break;
        std::size_t failed = 0;
        const RankResult* finished = nullptr;
        for (const RankResult& r : results) {
          failed += r.error.empty() ? 0 : 1;
          if (!r.error.empty()) continue;
          if (finished != nullptr) {
            EXPECT_EQ(r.sum, finished->sum);
          }
          finished = &r;
        }
        EXPECT_GT(failed, 0U) << "message " << number << " of rank " << from;
      }
    }
  }
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const CollectiveEntry& e : collectives()) names.emplace_back(e.name);
  return names;
}

std::string case_name(
    const ::testing::TestParamInfo<CollectiveLaw::ParamType>& c) {
  return safe_name(std::get<0>(c.param) + "_" +
                   std::to_string(std::get<1>(c.param)) + "_" +
                   std::get<2>(c.param));
}

INSTANTIATE_TEST_SUITE_P(
    Registry, CollectiveLaw,
    ::testing::Combine(::testing::ValuesIn(collective_names()),
                       ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                       ::testing::ValuesIn(device_names())),
    case_name);
// Those that know a link, and one that does not.
INSTANTIATE_TEST_SUITE_P(
    Linked, CollectiveLaw,
    ::testing::Combine(::testing::Values("allgather", "balanced", "auto",
                                         "oktopk"),
                       ::testing::Values(1, 2, 3, 4, 5),
                       ::testing::ValuesIn(linked_names())),
    case_name);

// The vector of the literature on which the published tree loses rank 0's 1.
TEST(Gtopk, LosesNothingOnTheVectorThatBreaksTheTree) {
  constexpr std::uint32_t kA = 3;
  constexpr std::uint32_t kB = 5;
  constexpr std::uint32_t kC = 9;
  const std::vector<Picks> lists = {
      {{kA}, {1}}, {{kB}, {2}}, {{kA}, {5}}, {{kC}, {0.1F}}};
  const auto names = collective_names();
  if (std::find(names.begin(), names.end(), "gtopk") == names.end()) {
    GTEST_SKIP() << "built without gTop-k";
  }
  for (const std::string name : {"gtopk", "gtopk-tree"}) {
    auto ranks = make_thread_ranks(4);
    std::vector<std::vector<float>> returned(4);
    std::vector<std::vector<float>> sum(4);
    run_ranks(ranks, [&](std::size_t r) {
      Exchanger exchanger;
      exchanger.reduce(name, *ranks[r], lists[r], {.n = 16, .k = 1});
      sum[r] = exchanger.sum();
      returned[r] = exchanger.returned();
    });
    EXPECT_EQ(sum[0][kA], 5.0F) << name;
    EXPECT_EQ(returned[1][kB], 2.0F) << name;
    EXPECT_EQ(returned[3][kC], 0.1F) << name;
    // Rank 0's share of a stays with rank 0, here as contributor or as the one
    // who cut it.
    EXPECT_EQ(returned[0][kA], 1.0F) << name;
    EXPECT_EQ(returned[2], std::vector<float>(16)) << name;
  }
}

}  // namespace
}  // namespace sluice::testing
