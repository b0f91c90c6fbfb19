#include "sluice/text/tokenizer.h"

#include <gtest/gtest.h>

#include "files.h"
#include "reference_tokenizers.h"
#include "sluice/core/atomic_file.h"
#include "sluice/text/basic_words.h"
#include "sluice/text/bpe_tokenizer.h"
#include "sluice/text/byte_alphabet.h"
#include "sluice/text/byte_tokenizer.h"
#include "sluice/text/gpt2_split.h"
#include "sluice/text/vocabulary_trainer.h"
#include "sluice/text/word_tokenizer.h"
#include "sluice/text/wordpiece_tokenizer.h"

namespace sluice {
namespace {

using testing::message_of;
using testing::random_text;
using testing::sample_texts;
using testing::TempFolder;
using Ids = std::vector<std::int32_t>;

std::vector<std::string> all_texts() {
  std::vector<std::string> texts = sample_texts();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    texts.push_back(
        random_text(seed, 1 + seed * 13, static_cast<int>(seed % 3 * 40)));
  }
  return texts;
}

std::vector<std::string> gpt2_pieces(std::string_view text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

TrainedBpe small_bpe() {
  PieceCounts counts(PieceCounts::Kind::kBpe);
  for (const std::string& text : all_texts()) counts.add(text);
  return train_bpe(counts, 700);
}

BpeTokenizer::Model model_of(const TrainedBpe& trained) {
  BpeTokenizer::Model model;
  for (std::size_t i = 0; i < trained.words.size(); ++i) {
    model.words.add(trained.words.word(static_cast<std::int64_t>(i)));
  }
  for (const auto& [left, right] : trained.merges) {
    model.merges.add(*model.words.find(left), *model.words.find(right),
                     *model.words.find(left + right));
  }
  return model;
}

Vocabulary small_wordpieces() {
  PieceCounts counts(PieceCounts::Kind::kWordPiece);
  for (const std::string& text : sample_texts()) counts.add(text);
  counts.add("hello hello world worlds worldly low lower lowest");
  return train_wordpiece(counts, 260);
}

TEST(Gpt2Split, AgreesWithThePattern) {
  for (const std::string& text : all_texts()) {
    EXPECT_EQ(gpt2_pieces(text), testing::reference_gpt2_pieces(text)) << text;
  }
}

TEST(Gpt2Split, KeepsContractionsAndBlanksAsGpt2) {
  EXPECT_EQ(gpt2_pieces("I'll  go 12km's."),
            (std::vector<std::string>{"I", "'ll", " ", " go", " 12", "km", "'s",
                                      "."}));
}

TEST(Bpe, AgreesWithTheReference) {
  const TrainedBpe trained = small_bpe();
  BpeTokenizer bpe(model_of(trained));
  const ByteAlphabet alphabet;
  for (const std::string& text : all_texts()) {
    Ids expected;
    for (const std::string& piece : testing::reference_gpt2_pieces(text)) {
      std::vector<std::string> characters;
      for (const char& c : piece) {
        characters.push_back(alphabet.written({&c, 1}));
      }
      for (const auto& token :
           testing::reference_bpe(trained.merges, characters)) {
        expected.push_back(*trained.words.find(token));
      }
    }
    EXPECT_EQ(bpe.encode(text), expected) << text;
    EXPECT_EQ(bpe.encode(text), expected) << "the second time: " << text;
    EXPECT_EQ(bpe.decode(expected), text);
  }
}

// No training makes such a list: what the first merge makes ranks before it.
TEST(Bpe, MergesAllOfARankBeforeWhatTheyMake) {
  TrainedBpe trained;
  const ByteAlphabet alphabet;
  for (const unsigned char byte : alphabet.order()) {
    const char c = static_cast<char>(byte);
    trained.words.add(alphabet.written({&c, 1}));
  }
  trained.merges = {{"ab", "a"}, {"ab", "ab"}, {"a", "b"}, {"b", "a"}};
  for (const auto& [left, right] : trained.merges) {
    trained.words.add(left);
    trained.words.add(left + right);
  }
  const BpeTokenizer::Model model = model_of(trained);
  for (const std::size_t n : {std::size_t{5}, std::size_t{201}}) {
    Ids tokens;
    std::vector<std::string> characters;
    for (std::size_t i = 0; i < n; ++i) {
      characters.emplace_back(i % 2 == 0 ? "a" : "b");
      tokens.push_back(*model.words.find(characters.back()));
    }
    model.merges.apply(tokens);
    std::vector<std::string> words;
    for (const std::int32_t token : tokens) {
      words.emplace_back(model.words.word(token));
    }
    EXPECT_EQ(words, testing::reference_bpe(trained.merges, characters));
  }
}

TEST(Bpe, TakesLongPiecesInTimeByTheirLength) {
  BpeTokenizer bpe(model_of(small_bpe()));
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(bpe.decode(bpe.encode(text)), text);
}

TEST(BasicWords, AgreeWithTheReference) {
  for (const bool lower : {true, false}) {
    BasicWords basic(lower);
    for (const std::string& text : all_texts()) {
      std::vector<std::string> words;
      basic.for_each(text, [&](const BasicWord& word) {
        words.emplace_back(word.text());
      });
      EXPECT_EQ(words, testing::reference_basic_words(text, lower)) << text;
    }
  }
}

TEST(WordPiece, AgreesWithTheReference) {
  const Vocabulary words = small_wordpieces();
  WordPieceTokenizer tokenizer({}, small_wordpieces());
  for (const std::string& text : all_texts()) {
    Ids expected;
    for (const auto& piece : testing::reference_wordpiece(words, text)) {
      expected.push_back(*words.find(piece));
    }
    EXPECT_EQ(tokenizer.encode(text), expected) << text;
    Ids placed;
    for (const PlacedToken& token : tokenizer.encode_placed(text)) {
      placed.push_back(token.id);
      EXPECT_LT(token.place.begin, token.place.end);
      EXPECT_LE(token.place.end, text.size());
    }
    EXPECT_EQ(placed, expected) << text;
  }
}

TEST(WordPiece, SaysWhereTokensCameFrom) {
  Vocabulary words;
  for (const char* word : {"[UNK]", "un", "##cafe", "##d", ",", "i", "x"}) {
    words.add(word);
  }
  WordPieceTokenizer tokenizer({}, std::move(words));
  // "UNCAFÉD, Q" with an accent of its own.
  const std::string text =
      "UNCAFE\xcc\x81"
      "D, Q\xc4\xb0x";
  const auto tokens = tokenizer.encode_placed(text);
  ASSERT_EQ(tokens.size(), 5U);
  const auto piece = [&](std::size_t i) {
    const ByteRange place = tokens[i].place;
    return text.substr(place.begin, place.end - place.begin);
  };
  EXPECT_EQ(piece(0), "UN");
  EXPECT_EQ(piece(1), "CAFE\xcc\x81");
  EXPECT_EQ(piece(2), "D");
  EXPECT_EQ(piece(3), ",");
  EXPECT_EQ(piece(4), "Q\xc4\xb0x");
  EXPECT_EQ(tokens[4].id, 0);
}

TEST(WordPiece, TakesWordsOfAHundredCharacters) {
  Vocabulary words;
  for (const char* word : {"[UNK]", "a", "##a"}) words.add(word);
  WordPieceTokenizer tokenizer({}, std::move(words));
  EXPECT_EQ(tokenizer.encode(std::string(100, 'a')).size(), 100U);
  EXPECT_EQ(tokenizer.encode(std::string(101, 'a')), Ids{0});
}

TEST(WordPiece, JoinsPiecesAgain) {
  Vocabulary words;
  for (const char* word : {"[UNK]", "un", "##aff", "##able", "!"}) {
    words.add(word);
  }
  WordPieceTokenizer tokenizer({}, std::move(words));
  EXPECT_EQ(tokenizer.encode("UNaffable!"), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 3, 4}), "unaffable !");
}

TEST(WordTokenizer, EndsEveryLine) {
  Vocabulary words;
  for (const char* word : {"<unk>", "<eos>", "a", "b"}) words.add(word);
  WordTokenizer tokenizer(std::move(words));
  const Ids ids = {2, 3, 1, 1, 0, 1};
  EXPECT_EQ(tokenizer.encode(" a b \n\n c"), ids);
  EXPECT_EQ(tokenizer.encode(" a b \r\n\nc\n"), ids);
  EXPECT_EQ(tokenizer.decode(ids), "a b\n\n<unk>\n");
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(WordTokenizer, NeedsAWordForUnknownOnes) {
  Vocabulary words;
  for (const char* word : {"<eos>", "a"}) words.add(word);
  WordTokenizer tokenizer(std::move(words));
  EXPECT_EQ(message_of<std::runtime_error>([&] { tokenizer.encode("a b"); }),
            "[tokenizer 'word': 'b'] the vocabulary must have a word for "
            "unknown ones, <unk> or [UNK], and none of its 2 words is that; "
            "add a line with it");
}

TEST(ByteTokenizer, TakesAnything) {
  ByteTokenizer tokenizer({}, {});
  const std::string text("a\0\xff", 3);
  EXPECT_EQ(tokenizer.encode(text), (Ids{97, 0, 255}));
  EXPECT_EQ(tokenizer.decode(Ids{97, 0, 256, 255}), text);
  EXPECT_EQ(tokenizer.size(), 257);
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { tokenizer.decode(Ids{257}); }),
      "[byte] a token must be at most 256, got 257");
}

TEST(Tokenizers, RefuseWhatIsNoUtf8) {
  BpeTokenizer bpe(model_of(small_bpe()));
  WordPieceTokenizer pieces({}, small_wordpieces());
  for (const char* bad : {"ab\xff", "ab\xc3", "ab\xc0\xaf", "ab\xed\xa0\x80",
                          "ab\xf4\x90\x80\x80"}) {
    EXPECT_EQ(message_of<std::invalid_argument>([&] { bpe.encode(bad); }),
              "[bpe] a text must be UTF-8, byte 2 of this one is not; convert "
              "it, as in iconv -f latin1 -t utf-8");
    EXPECT_CONTAINS(
        message_of<std::invalid_argument>([&] { pieces.encode(bad); }),
        "[wordpiece] a text must be UTF-8, byte 2 ");
  }
}

TEST(Tokenizers, AreMadeByName) {
  const TempFolder folder;
  write_bpe(small_bpe(), folder.path());
  auto bpe = make_tokenizer("bpe", {folder.path()});
  EXPECT_EQ(bpe->decode(bpe->encode("It's so.")), "It's so.");
  ASSERT_TRUE(bpe->special().end);
  EXPECT_EQ(bpe->decode(Ids{*bpe->special().end}), "<|endoftext|>");

  write_vocabulary_lines(small_wordpieces(), folder / "vocab.txt");
  auto pieces = make_tokenizer("wordpiece:lower=false", {folder.path()});
  EXPECT_EQ(pieces->special().classify, 2);
  EXPECT_EQ(message_of<std::invalid_argument>([] { make_tokenizer("bpf"); }),
            "[make_tokenizer] no tokenizer 'bpf'; known: word byte bpe "
            "wordpiece");
}

TEST(Tokenizers, SayWhichFilesTheyWant) {
  const TempFolder folder;
  const auto message = [&](const char* name) {
    return message_of<std::runtime_error>(
        [&] { make_tokenizer(name, {folder.path()}); });
  };
  EXPECT_EQ(message("bpe"),
            "[tokenizer 'bpe'] folder '" + folder.path() +
                "' must hold vocab.json; both files come with a GPT-2 model, "
                "or from sluice data vocab --kind bpe");
  EXPECT_CONTAINS(message("wordpiece"),
                  "must hold vocab.txt; it comes with a "
                  "BERT model");
  EXPECT_CONTAINS(message("word"), "must hold vocab.txt; it holds one word");

  write_text(folder / "vocab.txt", "a\nb\n");
  EXPECT_CONTAINS(message("wordpiece"),
                  "[tokenizer 'wordpiece'] the vocabulary must have a word for "
                  "unknown ones");
  EXPECT_CONTAINS(message("word"), "the vocabulary must have <eos>");
  write_text(folder / "vocab.json", "{\"a\": 0}");
  write_text(folder / "merges.txt", "");
  EXPECT_CONTAINS(message("bpe"), "must have a token for every byte, lacks");
  write_text(folder / "merges.txt", "#version: 0.2\na b\n");
  EXPECT_CONTAINS(message("bpe"),
                  "merges.txt' line 2 needs token 'b', which "
                  "vocab.json lacks");
  write_text(folder / "merges.txt", "ab\n");
  EXPECT_CONTAINS(message("bpe"),
                  "line 1 must hold two tokens with a blank "
                  "between them, got 'ab'");
}

}  // namespace
}  // namespace sluice
