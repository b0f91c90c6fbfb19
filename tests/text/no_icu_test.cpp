// Linked with no_icu.cpp, as a build without ICU is.

#include <gtest/gtest.h>

#include "files.h"
#include "sluice/text/basic_words.h"
#include "sluice/text/gpt2_split.h"
#include "sluice/text/squad.h"
#include "sluice/text/unicode.h"

namespace sluice {
namespace {

using testing::message_of;

constexpr const char* kNeeds =
    "[unicode] characters beyond ASCII need a build with ICU, got one without; "
    "install libicu-dev, configure and build again";

TEST(NoIcu, KnowsAscii) {
  EXPECT_FALSE(has_icu());
  std::vector<std::string> words;
  BasicWords(true).for_each("It's\x01 A+b_c 12.", [&](const BasicWord& word) {
    words.emplace_back(word.text());
  });
  EXPECT_EQ(words, (std::vector<std::string>{"it", "'", "s", "a", "+", "b", "_",
                                             "c", "12", "."}));
  EXPECT_EQ(gpt2_piece_end(" abc, d", 0), 4U);
  EXPECT_EQ(normalize_answer("The Cat!"), "cat");
}

TEST(NoIcu, SaysWhatToInstall) {
  EXPECT_EQ(message_of<std::runtime_error>([] { kind_of(0xe9); }), kNeeds);
  EXPECT_EQ(message_of<std::runtime_error>([] { lower_case("\xc3\x89"); }),
            kNeeds);
  EXPECT_EQ(
      message_of<std::runtime_error>([] { lower_without_accents(U"\u00c9"); }),
      kNeeds);
  EXPECT_EQ(
      message_of<std::runtime_error>([] { gpt2_piece_end("\xc3\x89", 0); }),
      kNeeds);
}

}  // namespace
}  // namespace sluice
