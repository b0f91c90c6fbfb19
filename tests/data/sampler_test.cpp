#include "sluice/data/sampler.h"

#include <algorithm>
#include <map>
#include <set>

#include "files.h"

namespace sluice::testing {
namespace {

using Invalid = std::invalid_argument;

SamplerOptions options(std::uint64_t batch, std::uint64_t rank,
                       std::uint64_t ranks, bool drop_last = true) {
  return {batch, rank, ranks, 5, drop_last};
}

// What all ranks draw in the next epoch, and how often.
std::map<std::uint64_t, int> epoch_of(std::vector<Sampler>& ranks) {
  std::map<std::uint64_t, int> drawn;
  for (Sampler& sampler : ranks) {
    const auto epoch = sampler.position().epoch;
    while (sampler.position().epoch == epoch) {
      for (const auto index : sampler.next()) ++drawn[index];
    }
  }
  return drawn;
}

std::vector<Sampler> samplers(std::uint64_t samples, std::uint64_t batch,
                              std::uint64_t ranks, bool drop_last) {
  std::vector<Sampler> all;
  for (std::uint64_t r = 0; r < ranks; ++r) {
    all.emplace_back(samples, options(batch, r, ranks, drop_last));
  }
  return all;
}

TEST(Sampler, SharesAnEpochWithoutOverlap) {
  for (const std::uint64_t ranks : {1, 2, 3, 5}) {
    auto all = samplers(103, 4, ranks, true);
    std::set<std::uint64_t> left_out;
    for (int epoch = 0; epoch < 8; ++epoch) {
      const auto drawn = epoch_of(all);
      EXPECT_EQ(drawn.size(), 103 / (4 * ranks) * 4 * ranks);
      for (const auto& [index, times] : drawn) {
        EXPECT_LT(index, 103U);
        EXPECT_EQ(times, 1);
      }
      for (std::uint64_t i = 0; i < 103; ++i) {
        if (!drawn.contains(i)) left_out.insert(i);
      }
    }
    EXPECT_GT(left_out.size(), 103 % (4 * ranks)) << "always the same";
  }
}

TEST(Sampler, FillsTheLastStepIfToldTo) {
  auto all = samplers(103, 4, 3, false);
  EXPECT_EQ(all[0].steps_per_epoch(), 9U);
  const auto drawn = epoch_of(all);
  EXPECT_EQ(drawn.size(), 103U);
  const auto twice = std::count_if(drawn.begin(), drawn.end(),
                                   [](const auto& d) { return d.second == 2; });
  EXPECT_EQ(twice, 9 * 12 - 103);
  // Fewer samples than one step takes.
  auto few = samplers(5, 4, 3, false);
  EXPECT_EQ(few[0].steps_per_epoch(), 1U);
  EXPECT_EQ(epoch_of(few).size(), 5U);
}

TEST(Sampler, CutsTheSameOrderWhateverTheRanks) {
  Sampler one(96, options(12, 0, 1));
  auto three = samplers(96, 4, 3, true);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::uint64_t> together;
    for (Sampler& sampler : three) {
      const auto part = sampler.next();
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, one.next());
  }
}

TEST(Sampler, ShufflesEveryEpochAnew) {
  Sampler sampler(50, options(50, 0, 1));
  auto first = sampler.next();
  auto second = sampler.next();
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  Sampler other(50, {50, 0, 1, 6, true});
  EXPECT_NE(other.next(), first);
  // Part of what makes runs repeatable: do not change it.
  Sampler small(8, {8, 0, 1, 1, true});
  EXPECT_EQ(small.next(), (std::vector<std::uint64_t>{1, 4, 5, 7, 2, 0, 3, 6}));
}

TEST(Sampler, ResumesExactly) {
  Sampler through(103, options(4, 1, 3));
  std::vector<Position> positions;
  std::vector<std::vector<std::uint64_t>> batches;
  for (int i = 0; i < 30; ++i) {
    positions.push_back(through.position());
    batches.push_back(through.next());
  }
  EXPECT_EQ(positions[29], (Position{3, 5}));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    Sampler resumed(103, options(4, 1, 3));
    resumed.seek(positions[i]);
    EXPECT_EQ(resumed.position(), positions[i]);
    EXPECT_EQ(resumed.next(), batches[i]);
  }
  Sampler at_end(103, options(4, 1, 3));
  at_end.seek({0, 8});
  EXPECT_EQ(at_end.position(), (Position{1, 0}));
}

TEST(Sampler, SaysWhatWouldWork) {
  EXPECT_EQ(message_of<Invalid>([] { Sampler(100, options(4, 3, 3)); }),
            "[sample] rank must be below the number of ranks, got 3 of 3");
  EXPECT_EQ(message_of<Invalid>([] { Sampler(100, options(40, 0, 3)); }),
            "[sample] 3 ranks with a batch of 40 need 120 samples for one "
            "step, got 100; use a smaller batch, or fewer ranks");
  EXPECT_CONTAINS(message_of<Invalid>([] { Sampler(0, options(4, 0, 1)); }),
                  "got 0 samples and a batch of 4");
  EXPECT_CONTAINS(message_of<Invalid>([] { Sampler(9, options(0, 0, 1)); }),
                  "got 9 samples and a batch of 0");
  Sampler sampler(100, options(4, 0, 1));
  EXPECT_EQ(message_of<Invalid>([&] {
              sampler.seek({0, 26});
            }),
            "[sample] step must be at most 25, the steps of an epoch, got 26; "
            "were batch and ranks the same?");
}

TEST(EvaluationPartition, CoversEverySampleOnce) {
  for (const std::uint64_t samples : {0, 1, 7, 100, 10000}) {
    for (const std::uint64_t ranks : {1, 2, 3, 8, 13}) {
      std::uint64_t at = 0;
      for (std::uint64_t r = 0; r < ranks; ++r) {
        const Partition share = evaluation_partition(samples, r, ranks);
        EXPECT_EQ(share.begin, at);
        EXPECT_LE(share.end - share.begin, samples / ranks + 1);
        at = share.end;
      }
      EXPECT_EQ(at, samples);
    }
  }
  EXPECT_THROW(evaluation_partition(10, 2, 2), Invalid);
}

}  // namespace
}  // namespace sluice::testing
