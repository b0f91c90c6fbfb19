#include "sluice/text/vocabulary.h"

#include <gtest/gtest.h>

#include "files.h"
#include "sluice/core/atomic_file.h"
#include "sluice/text/utf8.h"
#include "sluice/text/vocabulary_trainer.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::TempFolder;

std::vector<std::string> words_of(const Vocabulary& words) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    all.emplace_back(words.word(static_cast<std::int64_t>(i)));
  }
  return all;
}

TEST(WordCounts, SortByCountThenBytes) {
  WordCounts counts;
  for (const char* word : {"b", "c", "a", "c", "\xc3\xa9"}) counts.add(word);
  std::string order;
  for (const auto& row : counts.by_frequency()) order.append(row.word);
  EXPECT_EQ(order, "cab\xc3\xa9");
  order.clear();
  for (const auto& row : counts.in_order()) order.append(row.word);
  EXPECT_EQ(order, "bca\xc3\xa9");
}

TEST(Vocabulary, SurvivesFiles) {
  const TempFolder folder;
  Vocabulary words;
  for (const char* word : {"a", "<unk>", "\xc3\xa9\"", "\\ "}) words.add(word);
  write_vocabulary_lines(words, folder / "v.txt");
  write_vocabulary_json(words, folder / "v.json");
  EXPECT_EQ(words_of(read_vocabulary_lines("t", folder / "v.txt")),
            words_of(words));
  const Vocabulary json = read_vocabulary_json("t", folder / "v.json");
  EXPECT_EQ(words_of(json), words_of(words));
  EXPECT_EQ(json.unknown(), 1);
  EXPECT_EQ(json.find("nothing"), std::nullopt);
}

TEST(Vocabulary, RefusesNumbersThatThereAreNot) {
  Vocabulary words;
  words.add("a");
  EXPECT_EQ(message_of<std::invalid_argument>([&] { words.word(1); }),
            "[vocabulary] a number must be below 1, got 1");
}

class VocabularyFiles : public ::testing::Test {
 protected:
  std::string lines(const std::string& text) {
    write_text(folder_ / "v.txt", text);
    return message_of<std::runtime_error>(
        [&] { read_vocabulary_lines("t", folder_ / "v.txt"); });
  }
  std::string json(const std::string& text) {
    write_text(folder_ / "v.json", text);
    return message_of<std::runtime_error>(
        [&] { read_vocabulary_json("t", folder_ / "v.json"); });
  }
  TempFolder folder_;
};

TEST_F(VocabularyFiles, NameTheLineThatIsWrong) {
  const std::string file = "[t] '" + (folder_ / "v.txt") + "' ";
  EXPECT_EQ(lines(""), file + "must hold a word per line, is empty");
  EXPECT_EQ(lines("a\n\nb\n"),
            file + "line 2 must hold a word, is empty; remove it");
  EXPECT_EQ(lines("a\nb\na\n"), file +
                                    "line 3 must hold a word of its own, "
                                    "'a' is in line 1 already");
  EXPECT_EQ(lines("a\nb\xff\n"),
            file +
                "must be UTF-8, line 2 (byte 3 of the file) is not; convert "
                "it, as in iconv -f latin1 -t utf-8");
}

TEST_F(VocabularyFiles, NameTheWordThatIsWrong) {
  const std::string file = "[t] '" + (folder_ / "v.json") + "' ";
  const std::string must = file +
                           "must number its 2 words from 0 to 1, each "
                           "once; 'b' has ";
  EXPECT_EQ(json("{\"a\": 0, \"b\": 2}"), must + "2");
  EXPECT_EQ(json("{\"a\": 0, \"b\": 0}"), must + "0, as has 'a'");
  EXPECT_EQ(json("{\"a\": 0, \"b\": -1}"), must + "-1");
  EXPECT_EQ(json("{\"a\": 0, \"b\": \"x\"}"), must + "\"x\"");
  EXPECT_CONTAINS(json("[]"), "must be a JSON object of words");
  EXPECT_CONTAINS(json("{}"), "must be a JSON object of words");
  EXPECT_CONTAINS(json("{\"a\": 0, \"a\": 1}"),
                  "is no vocabulary: [t] key 'a'");
  EXPECT_CONTAINS(json("{"), "is no vocabulary: [t] must be JSON");
}

TEST(ReadUtf8File, DropsTheByteOrderMark) {
  const TempFolder folder;
  write_text(folder / "a", "\xef\xbb\xbfx");
  EXPECT_EQ(read_utf8_file("t", folder / "a"), "x");
}

// Merges of a text small enough to count by hand: "ab" 4 times, "bc" 3.
TEST(TrainBpe, MergesTheMostFrequentPairFirst) {
  PieceCounts counts(PieceCounts::Kind::kBpe);
  counts.add("abc");
  counts.add("abc");
  counts.add("ab");
  counts.add("ab");
  counts.add("bc");
  const TrainedBpe model = train_bpe(counts, 300);
  using Merges = std::vector<std::pair<std::string, std::string>>;
  // Then (ab, c) is there twice and (b, c) once.
  EXPECT_EQ(model.merges, (Merges{{"a", "b"}, {"ab", "c"}, {"b", "c"}}));
  EXPECT_EQ(model.words.size(), 260U);
  EXPECT_EQ(model.words.word(0), "!");
  EXPECT_EQ(model.words.word(259), "<|endoftext|>");
}

TEST(TrainBpe, BreaksTiesByTheAlphabet) {
  PieceCounts counts(PieceCounts::Kind::kBpe);
  counts.add("zy");
  counts.add("xw");
  const TrainedBpe model = train_bpe(counts, 258);
  ASSERT_EQ(model.merges.size(), 1U);
  EXPECT_EQ(model.merges[0].first, "x");
}

TEST(TrainWordPiece, KeepsCharactersAndMergesInside) {
  PieceCounts counts(PieceCounts::Kind::kWordPiece);
  counts.add("Low low lower LOWER lowest");
  const Vocabulary words = train_wordpiece(counts, 20);
  for (const char* word : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "l",
                           "##o", "##w", "##e", "##r", "##s", "##t", "low"}) {
    EXPECT_TRUE(words.find(word)) << word;
  }
  EXPECT_FALSE(words.find("w"));
  EXPECT_EQ(words.find("[UNK]"), 1);
}

TEST(TrainVocabulary, SaysWhichSizesThereAre) {
  PieceCounts bpe(PieceCounts::Kind::kBpe);
  EXPECT_CONTAINS(message_of<std::invalid_argument>([&] { train_bpe(bpe, 9); }),
                  "[vocab] a bpe vocabulary must have from 257");
  PieceCounts pieces(PieceCounts::Kind::kWordPiece);
  pieces.add("ab");
  EXPECT_CONTAINS(
      message_of<std::invalid_argument>([&] { train_wordpiece(pieces, 6); }),
      "[vocab] a wordpiece vocabulary of this text must have from 7 ");
}

}  // namespace
}  // namespace sluice
