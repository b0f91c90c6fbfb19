#include "sluice/audio/labels.h"

#include "audio_support.h"

namespace sluice::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::string refusal_of(const std::string& json) {
  return message_of<std::runtime_error>([&] { parse_labels("l.json", json); });
}

TEST(Labels, AreThe29OfDeepSpeech) {
  const Labels labels;
  EXPECT_EQ(labels.size(), 29U);
  EXPECT_EQ(labels.encode("c", "it's A"), (Ids{10, 21, 1, 20, 28, 2}));
  EXPECT_EQ(labels.decode(Ids{10, 0, 21, 1, 20, 28, 2}), "IT'S A");
}

TEST(Labels, ComeFromAList) {
  EXPECT_EQ(parse_labels("l.json", R"(["_", "A", " "])").letters(), "_A ");
  TempFolder folder;
  write_text_to(folder / "labels.json", R"(["_", "X"])");
  EXPECT_EQ(read_labels(folder / "labels.json").letters(), "_X");
}

TEST(Labels, MustBeLettersThatATranscriptCanHave) {
  constexpr std::string_view kEnd =
      "; expected is [\"_\", \"'\", \"A\", ..., \"Z\", \" \"]";
  const auto expect = [&](const std::string& json, const std::string& message) {
    EXPECT_EQ(refusal_of(json),
              "[labels] 'l.json' " + message + std::string(kEnd));
  };
  expect("{}", "must be a JSON list of letters");
  expect("[1, 2]", "must be a JSON list of strings, has number");
  expect(R"(["_"])", "must have from 2 to 96 labels, has 1");
  expect(R"(["A", "_"])", "must begin with the blank \"_\", begins with \"A\"");
  expect(R"(["_", "AB"])",
         "must have one ASCII character per label, label 1 is \"AB\"");
  expect(R"(["_", "a"])",
         "must have upper-case letters, as transcripts are made; label 1 is "
         "\"a\"");
  expect(R"(["_", "A", "A"])", "must have each label once, has \"A\" twice");
  EXPECT_CONTAINS(refusal_of("[\"_\", "),
                  "[labels 'l.json'] must be JSON in UTF-8: ");
}

TEST(Labels, NameTheLetterTheyDoNotHave) {
  const Labels labels;
  EXPECT_EQ(message_of<std::runtime_error>(
                [&] { labels.encode("clip.txt", "route 66"); }),
            "[labels] the transcript of 'clip.txt' must have letters of the "
            "labels only, has '6'; write it out, or leave such letters out: "
            "unknown=drop");
  EXPECT_CONTAINS(message_of<std::runtime_error>(
                      [&] { labels.encode("clip.txt", "caf\xc3\xa9"); }),
                  "has the byte 0xc3;");
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { labels.encode("c", "a_b"); }),
      "has '_';");
}

TEST(Labels, DropAndCountLettersIfToldTo) {
  std::size_t dropped = 1;
  EXPECT_EQ(Labels().encode("c", "A66B", UnknownLetters::kDrop, &dropped),
            (Ids{2, 3}));
  EXPECT_EQ(dropped, 3U);
}

TEST(Labels, RefuseNumbersOutside) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { Labels().decode(Ids{29}); }),
            "[labels] a label must be from 0 to 28, got 29");
}

}  // namespace
}  // namespace sluice::testing
