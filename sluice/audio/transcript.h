#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Upper case, and single blanks between words only. ASCII; other bytes stay.
std::string tidy_text(std::string_view text);

// The words of an AN4 transcript: "<s> one two </s> (file)" without its marks,
// as plain text is; tidied.
std::string clean_an4_transcript(std::string_view text);

// What a prompt says, in the letters A to Z, apostrophe and space.
struct PromptText {
  std::string text;
  // Why it cannot be told what is said; empty if it can.
  std::string problem;
};

// Punctuation and hyphens become blanks, digits that stand alone words ("press
// 1"), initials ("A.M.") letters. Longer numbers, symbols, and remarks in
// brackets are a problem: nobody knows how they were read aloud, if at all.
PromptText clean_prompt(std::string_view text);

struct PromptLine {
  std::string name;  // of the sound, without folder and .wav: "digits/1"
  std::string text;  // as it is written there
};

// The list of prompts that comes with Asterisk's sounds: lines "name: text",
// and comments that begin with ';'. `where` is for messages. Throws
// std::runtime_error, with the line, for anything else, for names that leave
// the folder, and for a name that comes twice.
std::vector<PromptLine> parse_prompt_list(std::string_view where,
                                          std::string_view text);

}  // namespace sluice
