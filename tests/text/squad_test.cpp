#include "sluice/text/squad.h"

#include <gtest/gtest.h>

#include "files.h"
#include "sluice/text/squad_windows.h"

namespace sluice {
namespace {

using testing::message_of;

std::string file_of(const std::string& context, const std::string& qas) {
  return R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [)"
         R"({"context": ")" +
         context + R"(", "qas": [)" + qas + "]}]}]}";
}

std::string qa(const std::string& id, const std::string& answer, int start) {
  return R"({"id": ")" + id +
         R"(", "question": "what is it", "answers": [)"
         R"({"text": ")" +
         answer + R"(", "answer_start": )" + std::to_string(start) + "}]}";
}

// Words a to z, each its own token.
WordPieceTokenizer letters() {
  Vocabulary words;
  for (const char* word : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) words.add(word);
  for (char c = 'a'; c <= 'z'; ++c) words.add(std::string(1, c));
  return WordPieceTokenizer({}, std::move(words));
}

TEST(Squad, CountsOffsetsInCharacters) {
  const SquadData data =
      parse_squad("f", file_of("caf\xc3\xa9 in Paris", qa("1", "Paris", 8)));
  ASSERT_EQ(data.questions.size(), 1U);
  EXPECT_EQ(data.questions[0].answers[0].place, (ByteRange{9, 14}));
}

TEST(Squad, SkipsAndNamesAnswersThatAreElsewhere) {
  const SquadData data = parse_squad(
      "f", file_of("a b c", qa("1", "b", 2) + "," + qa("2", "b", 3) + "," +
                                qa("3", "c", 99)));
  EXPECT_EQ(data.questions.size(), 1U);
  EXPECT_EQ(data.skipped, (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(message_of<std::runtime_error>(
                [] { parse_squad("f", file_of("a b", qa("1", "b", 0))); }),
            "[squad] 'f' must hold questions with answers, holds none; 1 had "
            "answers that are not in their context");
}

TEST(Squad, NamesTheQuestionThatIsWrong) {
  const auto message = [](const std::string& json) {
    return message_of<std::runtime_error>([&] { parse_squad("f", json); });
  };
  EXPECT_EQ(message(file_of("a", R"({"id": "q7", "question": "x",)"
                                 R"( "answers": []})")),
            "[squad] 'f': question 'q7' must have an answer, has none; take "
            "SQuAD 1.1 (version 2.0 has such questions)");
  EXPECT_EQ(message(file_of("a", qa("1", "a", 0) + "," + qa("1", "a", 0))),
            "[squad] 'f': question '1' must be there once, is there twice");
  EXPECT_EQ(message(R"({"data": 3})"),
            "[squad] 'f': 'data' of the file must be a list; is this SQuAD "
            "1.1?");
  EXPECT_EQ(message("[]"),
            "[squad] 'f': the file must be an object with "
            "'data'; is this SQuAD 1.1?");
  EXPECT_CONTAINS(message("{"),
                  "[squad] 'f' cannot be read: [squad] must be "
                  "JSON");
  EXPECT_CONTAINS(message(file_of("a", qa("1", "a", -1))),
                  "'answer_start' of question '1' must be a whole number");
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([] { read_squad("/nonexistent"); }),
      "train-v1.1.json and dev-v1.1.json of SQuAD 1.1 are such, and "
      "tools/make_questions makes one");
}

TEST(SquadWindows, CoverTheContextAndMarkTheAnswer) {
  const SquadData data =
      parse_squad("f", file_of("a b c d e f g h", qa("1", "e f", 8)));
  WordPieceTokenizer tokenizer = letters();
  const auto windows = make_squad_windows(data, tokenizer, {9, 2, 2});
  // Two of the question, three marks, four of the context; 2 on each time.
  ASSERT_EQ(windows.size(), 3U);
  for (const SquadWindow& window : windows) {
    EXPECT_EQ(window.tokens.size(), 9U);
    EXPECT_EQ(window.first, 4U);
    EXPECT_EQ(window.segment(3), 0);
    EXPECT_EQ(window.segment(4), 1);
  }
  EXPECT_EQ(windows[0].start, 0U);
  EXPECT_EQ(windows[1].start, 6U);
  EXPECT_EQ(windows[1].end, 7U);
  EXPECT_EQ(windows[2].start, 4U);
  EXPECT_EQ(windows[2].end, 5U);
  // Every token of the context is shown best once.
  std::size_t best = 0;
  for (const SquadWindow& window : windows) {
    for (const bool here : window.best_here) best += here ? 1 : 0;
  }
  EXPECT_EQ(best, 8U);
}

TEST(SquadWindows, RefuseLengthsThatDoNotFit) {
  WordPieceTokenizer tokenizer = letters();
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              make_squad_windows({}, tokenizer, {67, 128, 64});
            }),
            "[squad] a sequence must be longer than a question and 3 marks, 67 "
            "tokens, got 67");
  EXPECT_EQ(message_of<std::invalid_argument>([] {
              check_squad_length({1024, 128, 64}, 512);
            }),
            "[squad] sequences must have at most 512 tokens, the positions of "
            "the model, got 1024");
}

TEST(BestAnswer, IsTextOfTheContextAsItIs) {
  const SquadData data =
      parse_squad("f", file_of("A B,  C d e f g h", qa("1", "A", 0)));
  WordPieceTokenizer tokenizer = letters();
  const auto windows = make_squad_windows(data, tokenizer, {64, 8, 2});
  ASSERT_EQ(windows.size(), 1U);
  const std::size_t n = windows[0].tokens.size();
  std::vector<float> start(n, 0.F), end(n, 0.F);
  start[windows[0].first + 1] = 5;
  end[windows[0].first + 3] = 5;
  // Better, but before the start; and the question.
  end[windows[0].first] = 7;
  start[1] = 9;
  const SpanScores scores = {start, end};
  EXPECT_EQ(best_answer(data, windows, {&scores, 1}), "B,  C");
  // So long that no span is short enough.
  EXPECT_EQ(best_answer(data, windows, {&scores, 1}, {20, 0}), "");
  const SpanScores few = {std::span(start).first(2), end};
  EXPECT_CONTAINS(message_of<std::invalid_argument>([&] {
                    best_answer(data, windows, {&few, 1});
                  }),
                  "[squad] there must be scores for ");
}

TEST(SquadScore, FollowsTheOfficialRules) {
  EXPECT_EQ(normalize_answer("The  Cat, an' a dog_s!"), "cat dogs");
  EXPECT_EQ(normalize_answer("THEATRE a-the"), "theatre athe");
  EXPECT_TRUE(exact_match("the Norman's", "normans"));
  EXPECT_DOUBLE_EQ(answer_f1("a b c c", "c b"), 2 * (2. / 3) / (2. / 3 + 1));
  EXPECT_EQ(answer_f1("x", "y"), 0);
  const SquadData data = parse_squad(
      "f",
      file_of("red cat sat", qa("1", "red cat", 0) + "," + qa("2", "sat", 8)));
  const SquadScore score = score_squad(data, {{"1", "cat"}});
  EXPECT_EQ(score.exact, 0);
  EXPECT_NEAR(score.f1, 100 * (2. / 3) / 2, 1e-9);
  EXPECT_EQ(score.questions, 2U);
  EXPECT_EQ(score_squad(data, {{"1", "the red cat."}, {"2", "sat"}}).exact,
            100);
}

}  // namespace
}  // namespace sluice
