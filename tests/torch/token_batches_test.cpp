#include "sluice/torch/task/token_batches.h"

#include <gtest/gtest.h>

#include <numeric>

#include "refusal.h"

namespace sluice {
namespace {

std::vector<std::int32_t> count_to(std::int32_t end) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(end));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<std::int64_t> row(const torch::Tensor& t, std::int64_t i) {
  const torch::Tensor r = t[i].contiguous();
  return {r.data_ptr<std::int64_t>(), r.data_ptr<std::int64_t>() + r.numel()};
}

TEST(Columns, FollowOneAnotherOnEveryRank) {
  const auto tokens = count_to(100);
  const auto source =
      column_batches(tokens, 5, {.batch = 2, .rank = 1, .ranks = 2});
  EXPECT_EQ(source->steps_per_epoch(), 4U);  // of 25 tokens
  const Batch first = source->next();
  EXPECT_EQ(row(first.tensors[0], 0),
            (std::vector<std::int64_t>{50, 51, 52, 53, 54}));
  EXPECT_EQ(row(first.tensors[1], 1),
            (std::vector<std::int64_t>{76, 77, 78, 79, 80}));
  EXPECT_EQ(row(source->next().tensors[0], 0)[0], 55);
}

TEST(Columns, GoOnFromAnyPlace) {
  const auto tokens = count_to(100);
  const auto through = column_batches(tokens, 5, {.batch = 2});
  const auto resumed = column_batches(tokens, 5, {.batch = 2});
  for (int i = 0; i < 12; ++i) through->next();
  resumed->seek(through->position());
  EXPECT_EQ(through->position().epoch, 1U);
  EXPECT_TRUE(
      torch::equal(through->next().tensors[0], resumed->next().tensors[0]));
}

TEST(Columns, NeedAStepEach) {
  const auto tokens = count_to(20);
  EXPECT_CONTAINS(testing::message_of<std::invalid_argument>([&] {
                    column_batches(tokens, 5, {.batch = 2, .ranks = 2});
                  }),
                  "a text of 20 tokens is too short for 2 workers with 2 "
                  "columns each and steps of 5 tokens; lower --batch-size or "
                  "--length");
}

TEST(Blocks, AreEachTakenOnceInAnEpoch) {
  const auto tokens = count_to(101);
  std::vector<std::int64_t> begins;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    const auto source =
        block_batches(tokens, 10, {.batch = 1, .rank = rank, .ranks = 2});
    for (std::uint64_t s = 0; s < source->steps_per_epoch(); ++s) {
      const Batch batch = source->next();
      begins.push_back(row(batch.tensors[0], 0)[0]);
      EXPECT_EQ(row(batch.tensors[1], 0)[9], begins.back() + 10);
    }
  }
  std::sort(begins.begin(), begins.end());
  EXPECT_EQ(begins,
            (std::vector<std::int64_t>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}));
}

// How often each token is to be predicted, over so many ranks.
std::vector<int> predictions(std::span<const std::int32_t> tokens,
                             std::uint64_t columns, std::uint64_t ranks) {
  std::vector<int> counts(tokens.size());
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    TokenEvaluation all(tokens, 4, columns, 3, rank, ranks);
    while (const auto batch = all.next()) {
      const torch::Tensor in = batch->tensors[0].flatten();
      const torch::Tensor out = batch->tensors[1].flatten();
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        const auto token = out[i].item<std::int64_t>();
        if (token == kNoToken) continue;
        EXPECT_EQ(in[i].item<std::int64_t>() + 1, token);
        ++counts[static_cast<std::size_t>(token)];
      }
    }
  }
  return counts;
}

TEST(TokenEvaluation, PredictsEveryTokenOnceOnAnyRanks) {
  for (const std::int32_t size : {2, 3, 17, 50}) {
    const auto tokens = count_to(size);
    std::vector<int> once(tokens.size(), 1);
    once[0] = 0;
    for (const std::uint64_t ranks : {1U, 2U, 3U, 7U}) {
      EXPECT_EQ(predictions(tokens, 0, ranks), once) << size << " " << ranks;
      EXPECT_EQ(predictions(tokens, 10, ranks), once) << size << " " << ranks;
    }
  }
}

}  // namespace
}  // namespace sluice
