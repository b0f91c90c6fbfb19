#include "sluice/audio/score.h"

#include "audio_support.h"
#include "sluice/audio/labels.h"

namespace sluice::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::size_t distance(std::string_view a, std::string_view b) {
  return edit_distance(std::span<const char>(a), std::span<const char>(b));
}

TEST(EditDistance, CountsTheFewestChanges) {
  EXPECT_EQ(distance("kitten", "sitting"), 3U);
  EXPECT_EQ(distance("", "abc"), 3U);
  EXPECT_EQ(distance("abc", ""), 3U);
  EXPECT_EQ(distance("abc", "abc"), 0U);
  EXPECT_EQ(distance("flaw", "lawn"), 2U);
}

TEST(SpeechScore, CountsWordsAndLettersWithoutBlanks) {
  const auto words = word_errors("THE  CAT SAT", "THE CAT SAT DOWN");
  EXPECT_EQ(words.errors, 1U);
  EXPECT_EQ(words.length, 3U);
  const auto letters = letter_errors("A CAT", "AC AT");
  EXPECT_EQ(letters.errors, 0U);
  EXPECT_EQ(letters.length, 4U);
}

// One word of one wrong, and one of four: 62.5 % or 40 %.
TEST(SpeechScore, TellsTheMeanOfUtterancesFromTheCorpus) {
  SpeechScore score;
  score.add("YES", "NO");
  SpeechScore other;
  other.add("ONE TWO THREE FOUR", "ONE TWO THREE FIVE");
  score.add(other);
  EXPECT_EQ(score.utterances(), 2U);
  EXPECT_DOUBLE_EQ(score.mean_wer(), 0.625);
  EXPECT_DOUBLE_EQ(score.corpus_wer(), 0.4);
  EXPECT_DOUBLE_EQ(score.mean_cer(), (3.0 / 3 + 3.0 / 15) / 2);
  EXPECT_DOUBLE_EQ(score.corpus_cer(), 6.0 / 18);
}

TEST(SpeechScore, AddsUpOverRanks) {
  SpeechScore first;
  first.add("YES", "NO");
  SpeechScore second;
  second.add("ONE TWO", "ONE");
  auto sums = first.sums();
  const auto more = second.sums();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  first.add(second);
  const SpeechScore both = SpeechScore::from_sums(sums);
  EXPECT_EQ(both.utterances(), 2U);
  EXPECT_EQ(both.mean_wer(), first.mean_wer());
  EXPECT_EQ(both.corpus_wer(), first.corpus_wer());
  EXPECT_EQ(both.mean_cer(), first.mean_cer());
  EXPECT_EQ(both.corpus_cer(), first.corpus_cer());
}

TEST(SpeechScore, CountsEmptyReferencesAsRightOrWrong) {
  SpeechScore score;
  score.add("", "");
  EXPECT_EQ(score.mean_wer(), 0);
  score.add("", "SOMETHING SAID");
  EXPECT_EQ(score.mean_wer(), 0.5);
  EXPECT_EQ(score.corpus_wer(), 1);
  score.add("ONE TWO THREE FOUR", "ONE TWO THREE FOUR");
  EXPECT_EQ(score.corpus_wer(), 0.5);
  EXPECT_EQ(SpeechScore().mean_wer(), 0);
}

TEST(GreedyCtc, MakesRepeatsOneAndBlanksNothing) {
  EXPECT_EQ(greedy_ctc(Ids{0, 2, 2, 0, 2, 3, 3, 0, 0}), (Ids{2, 2, 3}));
  EXPECT_EQ(greedy_ctc(Ids{0, 0}), Ids{});
  EXPECT_EQ(greedy_ctc(Ids{}), Ids{});
}

TEST(CtcLength, CountsBlanksBetweenRepeats) {
  const Labels labels;
  EXPECT_EQ(least_ctc_frames(labels.encode("c", "CAT")), 3U);
  EXPECT_EQ(least_ctc_frames(labels.encode("c", "HELLO")), 6U);
  EXPECT_EQ(least_ctc_frames(labels.encode("c", "AAA")), 5U);
  EXPECT_EQ(least_ctc_frames({}), 0U);
}

}  // namespace
}  // namespace sluice::testing
