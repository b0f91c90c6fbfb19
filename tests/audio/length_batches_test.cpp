#include "sluice/audio/length_batches.h"

#include <algorithm>
#include <map>
#include <set>

#include "files.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

std::vector<std::uint64_t> lengths_of(std::size_t clips) {
  std::vector<std::uint64_t> lengths(clips);
  for (std::size_t i = 0; i < clips; ++i)
    lengths[i] = bounded(mix64(3, i), 500);
  return lengths;
}

SamplerOptions options(std::uint64_t batch, std::uint64_t rank,
                       std::uint64_t ranks, bool drop_last) {
  return {batch, rank, ranks, 5, drop_last};
}

std::vector<LengthBatches> all_ranks(const std::vector<std::uint64_t>& lengths,
                                     std::uint64_t ranks, bool drop_last) {
  std::vector<LengthBatches> all;
  for (std::uint64_t r = 0; r < ranks; ++r) {
    all.emplace_back(lengths, options(4, r, ranks, drop_last));
  }
  return all;
}

// What all ranks draw in each step of the next epoch.
std::vector<std::vector<std::uint64_t>> epoch_of(
    std::vector<LengthBatches>& all) {
  std::vector<std::vector<std::uint64_t>> steps(all[0].steps_per_epoch());
  for (LengthBatches& rank : all) {
    for (auto& step : steps) {
      const auto batch = rank.next();
      step.insert(step.end(), batch.begin(), batch.end());
    }
  }
  return steps;
}

TEST(LengthBatches, ShareAnEpochWithoutOverlap) {
  const auto lengths = lengths_of(103);
  for (const std::uint64_t ranks : {1, 2, 3, 5}) {
    auto all = all_ranks(lengths, ranks, true);
    std::set<std::uint64_t> ever;
    for (int epoch = 0; epoch < 20; ++epoch) {
      std::set<std::uint64_t> drawn;
      for (const auto& step : epoch_of(all)) {
        drawn.insert(step.begin(), step.end());
      }
      EXPECT_EQ(drawn.size(), 103 / (4 * ranks) * 4 * ranks);
      ever.insert(drawn.begin(), drawn.end());
    }
    EXPECT_EQ(ever.size(), 103U) << "some are always left out";
  }
}

TEST(LengthBatches, GoFromShortToLongFirst) {
  const auto lengths = lengths_of(120);
  auto all = all_ranks(lengths, 2, true);
  const auto steps = epoch_of(all);
  std::uint64_t longest = 0;
  for (const auto& step : steps) {
    std::uint64_t here = 0;
    for (const auto clip : step) {
      EXPECT_GE(lengths[clip], longest);
      here = std::max(here, lengths[clip]);
    }
    longest = here;
  }
}

TEST(LengthBatches, ShuffleLaterEpochsAndKeepLengthsTogether) {
  const auto lengths = lengths_of(120);
  auto all = all_ranks(lengths, 2, true);
  auto sorted = epoch_of(all);
  auto second = epoch_of(all);
  auto third = epoch_of(all);
  EXPECT_NE(second, sorted);
  EXPECT_NE(third, second);
  for (auto* steps : {&sorted, &second, &third}) {
    std::sort(steps->begin(), steps->end());
  }
  EXPECT_EQ(second, sorted) << "other clips together";
  EXPECT_EQ(third, sorted);
}

TEST(LengthBatches, FillTheLastStepWithTheLongest) {
  const auto lengths = lengths_of(103);
  auto all = all_ranks(lengths, 3, false);
  std::map<std::uint64_t, int> drawn;
  for (const auto& step : epoch_of(all)) {
    for (const auto clip : step) ++drawn[clip];
  }
  EXPECT_EQ(drawn.size(), 103U);
  std::uint64_t shortest_twice = 500;
  int twice = 0;
  for (const auto& [clip, times] : drawn) {
    if (times < 2) continue;
    ++twice;
    shortest_twice = std::min(shortest_twice, lengths[clip]);
  }
  EXPECT_EQ(twice, 5);
  EXPECT_GT(shortest_twice, 400U);
}

TEST(LengthBatches, FillAStepFromFewerClips) {
  const std::vector<std::uint64_t> lengths = {9, 5, 7};
  LengthBatches one(lengths, options(8, 0, 1, false));
  EXPECT_EQ(one.next(), (std::vector<std::uint64_t>{1, 2, 0, 0, 2, 1, 0, 2}));
}

TEST(LengthBatches, GoOnWhereToldTo) {
  const auto lengths = lengths_of(103);
  LengthBatches all(lengths, options(4, 1, 2, true));
  std::vector<std::vector<std::uint64_t>> drawn;
  std::vector<Position> places;
  for (int i = 0; i < 40; ++i) {
    places.push_back(all.position());
    drawn.push_back(all.next());
  }
  for (const std::size_t at : {0U, 5U, 11U, 12U, 13U, 39U}) {
    LengthBatches other(lengths, options(4, 1, 2, true));
    other.seek(places[at]);
    EXPECT_EQ(other.position(), places[at]);
    EXPECT_EQ(other.next(), drawn[at]);
  }
  LengthBatches other(lengths, options(4, 1, 2, true));
  other.seek({0, 12});
  EXPECT_EQ(other.position(), (Position{1, 0}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              other.seek({0, 13});
            }),
            "[sample] step must be at most 12, the steps of an epoch, got 13; "
            "were batch and ranks the same?");
}

TEST(LengthBatches, RefuseTooFewClips) {
  EXPECT_CONTAINS(message_of<std::invalid_argument>([] {
                    LengthBatches(lengths_of(5), options(4, 0, 2, true));
                  }),
                  "[sample] 2 ranks with a batch of 4 need 8 samples");
}

}  // namespace
}  // namespace sluice::testing
