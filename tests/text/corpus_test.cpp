#include <gtest/gtest.h>

#include <filesystem>

#include "files.h"
#include "sluice/core/atomic_file.h"
#include "sluice/text/kjv.h"
#include "sluice/text/text_corpus.h"
#include "sluice/text/token_cache.h"
#include "sluice/text/vocabulary_trainer.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::TempFolder;
using Ids = std::vector<std::int32_t>;

Ids ids(const TextCorpus& corpus, TextSplit split) {
  const auto tokens = corpus.tokens(split);
  return {tokens.begin(), tokens.end()};
}

class Corpora : public ::testing::Test {
 protected:
  void write_three(const std::string& pattern, const std::string& train,
                   const std::string& valid, const std::string& test) {
    const auto path = [&](const std::string& part) {
      std::string name = pattern;
      return folder_ / name.replace(name.find('*'), 1, part);
    };
    write_text(path("train"), train);
    write_text(path("valid"), valid);
    write_text(path("test"), test);
  }
  std::unique_ptr<TextCorpus> make(const std::string& spec) {
    return make_text_corpus(spec, {folder_.path()});
  }
  std::string refusal(const std::string& spec) {
    return message_of<std::runtime_error>([&] { make(spec); });
  }
  TempFolder folder_;
};

TEST_F(Corpora, PtbNumbersByFrequencyThenAlphabet) {
  write_three("ptb.*.txt", " b a <unk> \n a c \n", " a z \n", " c \n");
  const auto ptb = make("ptb");
  // <eos> and a twice; '<' sorts before letters.
  EXPECT_EQ(ids(*ptb, TextSplit::kTrain), (Ids{3, 1, 2, 0, 1, 4, 0}));
  EXPECT_EQ(ids(*ptb, TextSplit::kValid), (Ids{1, 2, 0}));
  EXPECT_EQ(ptb->unknown(), 1);
  EXPECT_EQ(ptb->dropped(), 0);
  EXPECT_EQ(ptb->input(), (TokenInput{5, 35}));
  EXPECT_EQ(ptb->tokenizer().decode(ptb->tokens(TextSplit::kTest)), "c\n");
}

TEST_F(Corpora, PtbDropsUnknownWordsWithoutAWordForThem) {
  write_three("ptb.*.txt", " a b \n", " a z b \n", " b \n");
  const auto ptb = make("ptb:length=20");
  EXPECT_EQ(ids(*ptb, TextSplit::kValid), (Ids{1, 2, 0}));
  EXPECT_EQ(ptb->dropped(), 1);
  EXPECT_EQ(ptb->input().length, 20);
}

TEST_F(Corpora, WikiTextNumbersInOrderOfAppearance) {
  write_three("wiki.*.tokens", " \n = b = \n", " b c \n", "d\n");
  const auto wiki = make("wikitext");
  EXPECT_EQ(ids(*wiki, TextSplit::kTrain), (Ids{0, 1, 2, 1, 0}));
  EXPECT_EQ(ids(*wiki, TextSplit::kValid), (Ids{2, 3, 0}));
  EXPECT_EQ(wiki->input().vocabulary, 5);
}

TEST_F(Corpora, WikiTextTakesBpe) {
  PieceCounts counts(PieceCounts::Kind::kBpe);
  counts.add("the then there");
  write_bpe(train_bpe(counts, 262), folder_.path());
  write_three("*.txt", "the then", "there", "then the\n");
  const auto wiki = make("wikitext:tokens=bpe");
  EXPECT_EQ(wiki->tokenizer().decode(wiki->tokens(TextSplit::kTest)),
            "then the\n");
  EXPECT_EQ(wiki->input().vocabulary, 262);
}

TEST_F(Corpora, PlainTextIsCutAtLines) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line number x\n";
  write_text(folder_ / "book.txt", text);
  const auto corpus = make("text:valid=0.1,test=0.1");
  EXPECT_EQ(corpus->tokens(TextSplit::kTrain).size(), 4U * 80);
  EXPECT_EQ(corpus->tokens(TextSplit::kValid).size(), 4U * 10);
  EXPECT_EQ(corpus->tokens(TextSplit::kTest).size(), 4U * 10);
  EXPECT_EQ(make("text:tokens=byte")->input().vocabulary, 257);
  EXPECT_EQ(make("text:most=3")->input().vocabulary, 3);
}

TEST_F(Corpora, AreReadFromWhatIsKept) {
  write_three("ptb.*.txt", " a b \n", " a \n", " b \n");
  const auto first = make("ptb");
  EXPECT_FALSE(first->was_cached());
  const auto second = make("ptb");
  EXPECT_TRUE(second->was_cached());
  EXPECT_EQ(ids(*first, TextSplit::kTrain), ids(*second, TextSplit::kTrain));
  EXPECT_EQ(second->tokenizer().decode(Ids{1}), "a");
  // Other content is another key.
  write_text(folder_ / "ptb.test.txt", " a a \n");
  EXPECT_FALSE(make("ptb")->was_cached());
}

TEST_F(Corpora, PrepareAgainWhereWhatIsKeptIsDamaged) {
  write_three("ptb.*.txt", " a b \n", " a \n", " b \n");
  make("ptb");
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path())) {
    if (entry.path().extension() == ".tokens") {
      write_text(entry.path().string(), "SLUTEXT1 nonsense");
    }
  }
  EXPECT_FALSE(make("ptb")->was_cached());
  EXPECT_TRUE(make("ptb")->was_cached());
}

TEST_F(Corpora, SayWhatIsMissing) {
  EXPECT_EQ(refusal("ptb"),
            "[text_corpus 'ptb'] folder '" + folder_.path() +
                "' must hold ptb.train.txt; they are in simple-examples.tgz of "
                "Mikolov's RNNLM toolkit, folder data");
  EXPECT_CONTAINS(refusal("wikitext"),
                  "must hold wiki.train.tokens or wiki.train.raw or train.txt; "
                  "wikitext-2-v1.zip");
  EXPECT_CONTAINS(refusal("text"),
                  "must hold one file that ends in .txt, holds 0; name it, as "
                  "in text:file=book.txt");
  write_text(folder_ / "kjv.txt", "Ge1:1 In the\nno verse\n");
  EXPECT_CONTAINS(refusal("kjv"), "[text_corpus 'kjv'] line 2 must be a verse");
}

TEST_F(Corpora, RefuseEmptyAndShortTexts) {
  write_three("ptb.*.txt", " a b \n", "", " b \n");
  EXPECT_CONTAINS(refusal("ptb"), "ptb.valid.txt' must hold text, is empty");
  write_text(folder_ / "one.txt", "word");
  EXPECT_EQ(refusal("text:file=one.txt"),
            "[text_corpus 'text'] the valid part must have at least 2 tokens, "
            "has 0; take a longer text");
  write_text(folder_ / "bad.txt", "fine\nnot \xff fine\n");
  EXPECT_CONTAINS(refusal("text:file=bad.txt"),
                  "bad.txt' must be UTF-8, line 2 (byte 9 of the file) is not");
}

TEST(SplitVerses, KeepsChaptersTogetherAndWordsApart) {
  const auto plain = split_verses("Ge1:1 He said, Go's.\nGe1:2 b\n", false);
  const auto spaced = split_verses("Ge1:1 He said, Go's.\nGe1:2 b\n", true);
  EXPECT_EQ(plain[0] + plain[1] + plain[2], "He said, Go's.\nb\n");
  EXPECT_EQ(spaced[0] + spaced[1] + spaced[2], "He said , Go's . \nb \n");
  int parts = 0;
  for (const auto& part : plain) parts += part.empty() ? 0 : 1;
  EXPECT_EQ(parts, 1);
}

// Runs must find the chapters where earlier ones had them.
TEST(SplitVerses, NeverMovesAChapter) {
  std::string text;
  for (int chapter = 1; chapter <= 150; ++chapter) {
    text +=
        "Ps" + std::to_string(chapter) + ":1 " + std::to_string(chapter) + "\n";
  }
  const auto parts = split_verses(text, false);
  EXPECT_EQ(parts[1], "7\n49\n104\n");
  EXPECT_EQ(parts[2], "1\n8\n9\n26\n45\n57\n60\n99\n121\n145\n149\n");
}

class TokenCache : public ::testing::Test {
 protected:
  static PreparedText sample() {
    PreparedText text;
    text.splits = {Ids{0, 1, 2}, Ids{1}, Ids{}};
    text.words = {"a", "b", "<eos>"};
    text.vocabulary = 3;
    text.dropped = 7;
    return text;
  }
};

TEST_F(TokenCache, ReadsWhatItWrote) {
  std::string problem;
  const auto text = unpack_text(pack_text(sample(), 5), 5, problem);
  ASSERT_TRUE(text) << problem;
  EXPECT_EQ(*text, sample());
}

TEST_F(TokenCache, NoticesEveryChangedAndMissingByte) {
  const std::string good = pack_text(sample(), 5);
  std::string problem;
  EXPECT_FALSE(unpack_text(good, 6, problem));
  EXPECT_EQ(problem, "it is of another text");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_FALSE(unpack_text(bad, 5, problem)) << i;
    EXPECT_FALSE(unpack_text(good.substr(0, i), 5, problem)) << i;
  }
}

}  // namespace
}  // namespace sluice
