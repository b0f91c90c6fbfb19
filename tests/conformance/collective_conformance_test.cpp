// The law, for every collective in the registry, any number of ranks and every
// kind of support: a new row in the registry gets all of this.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <thread>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/core/hash.h"
#include "support.h"

namespace sluice::testing {
namespace {

constexpr std::uint64_t kSize = 600;

struct RankResult {
  std::vector<float> mean;
  Entries returned;
  std::string error;
};

void run_ranks(std::vector<std::unique_ptr<Communicator>>& ranks,
               const std::function<void(std::size_t)>& f) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) threads.emplace_back(f, r);
  for (std::thread& t : threads) t.join();
}

// What a rank selected and what stayed behind. Whole numbers, so that sums are
// exact in any order.
struct Input {
  Entries selected;
  std::vector<float> rest;
};

std::vector<std::string> support_names() {
  return {"random", "disjoint", "identical", "skewed", "empty-some",
          "one",    "few",      "all",       "uneven", "none"};
}

Input make_input(const std::string& support, std::size_t rank,
                 std::size_t size) {
  Input in;
  in.rest.resize(kSize);
  const auto value = [&](std::uint64_t j) {
    return static_cast<float>(static_cast<int>(mix64(rank, j) % 2001) - 1000);
  };
  for (std::uint64_t j = 0; j < kSize; ++j) {
    const std::uint64_t h = mix64(7, rank, j);
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

std::vector<RankResult> run_collective(const std::string& name,
                                       std::size_t size,
                                       const std::string& support,
                                       std::uint64_t step,
                                       const ThreadRankOptions& options = {}) {
  auto ranks = make_thread_ranks(size, options);
  std::vector<RankResult> results(size);
  run_ranks(ranks, [&](std::size_t r) {
    const Input in = make_input(support, r, size);
    auto collective = make_collective(name);
    RankResult& out = results[r];
    out.mean.resize(kSize);
    try {
      collective->reduce(*ranks[r],
                         {in.selected, kSize, in.selected.size(), step,
                          ValueForm::kFp32, in.rest},
                         out.mean, out.returned);
    } catch (const CommError& e) {
      out.error = e.what();
    }
    ranks[r].reset();  // gone, as far as the clock is concerned
  });
  return results;
}

class CollectiveLaw
    : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

TEST_P(CollectiveLaw, ConservesMassWithIdenticalBits) {
  const auto& [name, size] = GetParam();
  for (const std::string& support : support_names()) {
    for (const std::uint64_t step : {0, 1}) {
      SCOPED_TRACE(support);
      const auto results = run_collective(name, size, support, step);
      std::vector<double> selected(kSize, 0);
      std::vector<double> after(kSize, 0);
      for (std::size_t r = 0; r < size; ++r) {
        ASSERT_EQ(results[r].error, "");
        // Bits, so that zeros of either sign count as different.
        for (std::size_t j = 0; j < kSize; ++j) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(results[r].mean[j]),
                    std::bit_cast<std::uint32_t>(results[0].mean[j]))
              << "rank " << r << " index " << j;
        }
        const Input in = make_input(support, r, size);
        for (std::size_t i = 0; i < in.selected.size(); ++i) {
          selected[in.selected.indices[i]] += double(in.selected.values[i]);
        }
        const Entries& back = results[r].returned;
        for (std::size_t i = 0; i < back.size(); ++i) {
          after[back.indices[i]] += double(back.values[i]);
        }
      }
      for (std::size_t j = 0; j < kSize; ++j) {
        const double delivered = double(size) * double(results[0].mean[j]);
        EXPECT_NEAR(delivered + after[j], selected[j],
                    1e-5 * (std::abs(selected[j]) + 1000))
            << "index " << j;
        if (make_collective(name)->exact()) {
          EXPECT_EQ(after[j], 0);
        }
      }
    }
  }
}

// With whole numbers and no division to round, the exact ones give the same sum
// as adding everything up.
TEST_P(CollectiveLaw, ExactAlgorithmsGiveTheSum) {
  const auto& [name, size] = GetParam();
  if (!make_collective(name)->exact()) GTEST_SKIP() << "cuts by design";
  for (const std::string& support : support_names()) {
    const auto results = run_collective(name, size, support, 0);
    std::vector<float> sum(kSize, 0);
    for (std::size_t r = 0; r < size; ++r) {
      const Input in = make_input(support, r, size);
      for (std::size_t i = 0; i < in.selected.size(); ++i) {
        sum[in.selected.indices[i]] += in.selected.values[i];
      }
    }
    for (float& v : sum) v *= 1.0F / static_cast<float>(size);
    EXPECT_EQ(results[0].mean, sum) << support;
  }
}

struct Injection {
  std::size_t from;
  std::uint64_t number;
  Fate fate;
  std::atomic<bool> hit{false};
};

Fate inject(void* context, std::size_t from, std::size_t,
            std::uint64_t number) {
  auto& injection = *static_cast<Injection*>(context);
  if (from != injection.from || number != injection.number) {
    return Fate::kDeliver;
  }
  injection.hit = true;
  return injection.fate;
}

// Every message of every rank lost or damaged once: nobody hangs, somebody
// notices, and no two ranks that finish disagree.
TEST_P(CollectiveLaw, NoticesEveryLostOrDamagedMessage) {
  const auto& [name, size] = GetParam();
  if (size == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Fate fate : {Fate::kDrop, Fate::kCorrupt}) {
    for (std::size_t from = 0; from < size; ++from) {
      for (std::uint64_t number = 0;; ++number) {
        Injection injection;
        injection.from = from;
        injection.number = number;
        injection.fate = fate;
        ManualClock clock;
        const auto results = run_collective(name, size, "random", 0,
                                            {&clock, &inject, &injection});
        if (!injection.hit) break;
        std::size_t failed = 0;
        const RankResult* finished = nullptr;
        for (const RankResult& r : results) {
          failed += r.error.empty() ? 0 : 1;
          if (!r.error.empty()) continue;
          if (finished != nullptr) {
            EXPECT_EQ(r.mean, finished->mean);
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

INSTANTIATE_TEST_SUITE_P(
    Registry, CollectiveLaw,
    ::testing::Combine(::testing::ValuesIn(collective_names()),
                       ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8)),
    [](const auto& c) {
      return safe_name(std::get<0>(c.param) + "_" +
                       std::to_string(std::get<1>(c.param)));
    });

// The vector of the literature on which the published tree loses rank 0's 1.
TEST(Gtopk, LosesNothingOnTheVectorThatBreaksTheTree) {
  constexpr std::uint32_t kA = 3;
  constexpr std::uint32_t kB = 5;
  constexpr std::uint32_t kC = 9;
  const std::vector<Entries> lists = {
      {{kA}, {1}}, {{kB}, {2}}, {{kA}, {5}}, {{kC}, {0.1F}}};
  const auto names = collective_names();
  if (std::find(names.begin(), names.end(), "gtopk") == names.end()) {
    GTEST_SKIP() << "built without gTop-k";
  }
  for (const std::string name : {"gtopk", "gtopk-tree"}) {
    auto ranks = make_thread_ranks(4);
    std::vector<Entries> returned(4);
    std::vector<std::vector<float>> mean(4, std::vector<float>(16));
    run_ranks(ranks, [&](std::size_t r) {
      make_collective(name)->reduce(*ranks[r],
                                    {lists[r], 16, 1, 0, ValueForm::kFp32, {}},
                                    mean[r], returned[r]);
    });
    EXPECT_EQ(mean[0][kA] * 4, 5.0F) << name;
    EXPECT_EQ(returned[1].values, std::vector<float>{2}) << name;
    EXPECT_EQ(returned[3].values, std::vector<float>{0.1F}) << name;
    // Rank 0's share of a stays with rank 0, here as contributor or as the one
    // who cut it.
    EXPECT_EQ(returned[0].values, std::vector<float>{1}) << name;
    EXPECT_EQ(returned[2].size(), 0U) << name;
  }
}

TEST(Vote, CommitsOnlyIfAllAgree) {
  for (const std::size_t size : {1, 2, 5}) {
    for (std::size_t against = 0; against <= size; ++against) {
      auto ranks = make_thread_ranks(size);
      std::vector<Decision> decisions(size);
      run_ranks(ranks, [&](std::size_t r) {
        decisions[r] = vote(*ranks[r], 3, r != against);
      });
      for (const Decision d : decisions) {
        EXPECT_EQ(d, against == size ? Decision::kCommit : Decision::kRollBack);
      }
    }
  }
}

TEST(ThreadRanks, NamesTheRankThatNeverCalls) {
  ManualClock clock;
  auto ranks = make_thread_ranks(4, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(4);
  std::vector<std::size_t> suspects(4, 99);
  run_ranks(ranks, [&](std::size_t r) {
    if (r == 2) {
      ranks[r].reset();  // never calls
      return;
    }
    try {
      const Input in = make_input("random", r, 4);
      std::vector<float> mean(kSize);
      Entries returned;
      make_collective("sparcml-rd")
          ->reduce(*ranks[r], {in.selected, kSize, 10, 7, ValueForm::kFp32, {}},
                   mean, returned);
    } catch (const CommError& e) {
      errors[r] = e.what();
      suspects[r] = e.suspect();
      // It stays failed.
      EXPECT_THROW(ranks[r]->begin("next", 8), CommError);
    }
    ranks[r].reset();
  });
  for (const std::size_t r : {0, 1, 3}) {
    EXPECT_NE(errors[r].find("[sparcml-rd] rank"), std::string::npos);
    EXPECT_NE(errors[r].find("step 7"), std::string::npos) << errors[r];
    EXPECT_EQ(suspects[r], 2U) << errors[r];
  }
}

TEST(ThreadRanks, NoticesAPeerInAnotherStep) {
  ManualClock clock;
  auto ranks = make_thread_ranks(2, {&clock, nullptr, nullptr});
  std::vector<std::string> errors(2);
  run_ranks(ranks, [&](std::size_t r) {
    try {
      const Input in = make_input("random", r, 2);
      std::vector<float> mean(kSize);
      Entries returned;
      make_collective("allgather")
          ->reduce(*ranks[r],
                   {in.selected, kSize, 10, 3 + r, ValueForm::kFp32, {}}, mean,
                   returned);
    } catch (const CommError& e) {
      errors[r] = e.what();
    }
    ranks[r].reset();
  });
  EXPECT_NE(errors[0].find("got from rank 1 in step 3: epoch 0 step 4 phase 0 "
                           "where epoch 0 step 3 phase 0 was due"),
            std::string::npos)
      << errors[0];
}

}  // namespace
}  // namespace sluice::testing
