#include "sluice/audio/transcript.h"

#include "audio_support.h"

namespace sluice::testing {
namespace {

TEST(Transcript, OfAn4LosesItsMarks) {
  EXPECT_EQ(clean_an4_transcript("<s> rubout G  M E F </s> (an406-fcaw-b)\n"),
            "RUBOUT G M E F");
  EXPECT_EQ(clean_an4_transcript("TWO SIX EIGHT"), "TWO SIX EIGHT");
  EXPECT_EQ(clean_an4_transcript("</s>"), "");
}

TEST(Prompt, IsWrittenAsItIsSaid) {
  const auto said = [](const char* text) {
    const PromptText prompt = clean_prompt(text);
    EXPECT_EQ(prompt.problem, "");
    return prompt.text;
  };
  EXPECT_EQ(said(" I'm sorry,  that's not valid.  Please try again!"),
            "I'M SORRY THAT'S NOT VALID PLEASE TRY AGAIN");
  EXPECT_EQ(said("Press 1 for ..."), "PRESS ONE FOR");
  EXPECT_EQ(said("press 2, or 3."), "PRESS TWO OR THREE");
  EXPECT_EQ(said("Call-Forward on Busy."), "CALL FORWARD ON BUSY");
  EXPECT_EQ(said("A.M."), "A M");
}

TEST(Prompt, IsLeftOutIfNobodyKnowsWhatIsSaid) {
  for (const char* text :
       {"[this is a beep]", "(10 seconds of silence)", "dial 500 now", "28.8",
        "press * or #", "www.asterisk.org", "3D audio", "H.323", "at [@]",
        "<beep>", "caf\xc3\xa9"}) {
    EXPECT_CONTAINS(clean_prompt(text).problem,
                    "has something that is not written as it is said")
        << text;
  }
  EXPECT_EQ(clean_prompt(" ... ").problem, "nothing is said");
}

TEST(PromptList, HasNamesAndTexts) {
  const auto lines = parse_prompt_list(
      "l.txt", "; a comment\n\nhello: Hello.\ndigits/1: one: two\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].name, "hello");
  EXPECT_EQ(lines[1].name, "digits/1");
  EXPECT_EQ(lines[1].text, " one: two");
}

TEST(PromptList, NamesTheLineThatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return message_of<std::runtime_error>(
        [&] { parse_prompt_list("l.txt", text); });
  };
  EXPECT_EQ(refusal("a: x\nb\n"),
            "[prompts] 'l.txt' line 2 must read 'name: what is said', has no "
            "colon; is it the list of asterisk-core-sounds-en?");
  EXPECT_EQ(refusal("../../etc/passwd: x"),
            "[prompts] 'l.txt' line 1 must begin with the name of a sound, got "
            "'../../etc/passwd'");
  EXPECT_EQ(refusal("a: x\na: y"),
            "[prompts] 'l.txt' line 2 must name each sound once, has 'a' "
            "again");
}

}  // namespace
}  // namespace sluice::testing
