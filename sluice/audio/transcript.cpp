#include "sluice/audio/transcript.h"

#include <algorithm>
#include <array>
#include <set>

#include "sluice/audio/text_lines.h"
#include "sluice/core/ensure.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 10> kDigits = {
    "ZERO", "ONE", "TWO",   "THREE", "FOUR",
    "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Outside of the text: a blank.
char at(std::string_view text, std::size_t i) {
  return i < text.size() ? text[i] : ' ';
}

// Whether the word around the dot at `i` is initials, as "A.M.": one letter
// stands before it.
bool follows_initial(std::string_view text, std::size_t i) {
  return i > 0 && is_letter(text[i - 1]) && (i == 1 || !is_letter(text[i - 2]));
}

bool stands_alone(std::string_view text, std::size_t i) {
  const char before = i == 0 ? ' ' : text[i - 1];
  const char after = at(text, i + 1);
  const bool part = after == '.' && is_digit(at(text, i + 2));
  return !is_digit(before) && !is_letter(before) && before != '.' &&
         !is_digit(after) && !is_letter(after) && !part;
}

// What the character at `i` is read as; empty if nobody knows.
std::string reading(std::string_view text, std::size_t i) {
  constexpr std::string_view kPauses = " \t,;:!?-\"";
  const char c = text[i];
  if (is_letter(c) || c == '\'') return {c};
  if (is_digit(c) && stands_alone(text, i)) {
    return std::string(kDigits[static_cast<std::size_t>(c - '0')]);
  }
  if (c == '.') {
    const bool inside =
        is_letter(at(text, i + 1)) && i > 0 && text[i - 1] != '.';
    return !inside || follows_initial(text, i) ? " " : "";
  }
  return kPauses.find(c) != std::string_view::npos ? " " : "";
}

// A name below the folder of the sounds.
bool is_safe_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '/' &&
         name.find("..") == std::string_view::npos &&
         name.find_first_of(" \t\\") == std::string_view::npos &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::string tidy_text(std::string_view text) {
  std::string tidy;
  for (char c : text) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    if (c == ' ' && (tidy.empty() || tidy.back() == ' ')) continue;
    tidy += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  if (!tidy.empty() && tidy.back() == ' ') tidy.pop_back();
  return tidy;
}

std::string clean_an4_transcript(std::string_view text) {
  std::string tidy = tidy_text(text);
  std::string_view words = tidy;
  if (words.ends_with(')')) {
    const std::size_t open = words.rfind('(');
    if (open != std::string_view::npos) words = words.substr(0, open);
  }
  while (words.ends_with(' ')) words.remove_suffix(1);
  if (words.ends_with("</S>")) words.remove_suffix(4);
  if (words.starts_with("<S>")) words.remove_prefix(3);
  return tidy_text(words);
}

PromptText clean_prompt(std::string_view text) {
  PromptText prompt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string read = reading(text, i);
    if (read.empty()) {
      prompt.problem = concat("'", text,
                              "' has something that is not written "
                              "as it is said");
      return prompt;
    }
    prompt.text += read;
  }
  prompt.text = tidy_text(prompt.text);
  if (prompt.text.find_first_not_of("' ") == std::string::npos) {
    prompt.problem = "nothing is said";
  }
  return prompt;
}

std::vector<PromptLine> parse_prompt_list(std::string_view where,
                                          std::string_view text) {
  std::vector<PromptLine> prompts;
  std::set<std::string, std::less<>> names;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    const auto fail = [&](bool ok, const auto&... parts) {
      ensure(ok, "[prompts] '", where, "' line ", number, " ", parts...);
    };
    if (line.empty() || line[0] == ';') return;
    const std::size_t colon = line.find(':');
    fail(colon != std::string_view::npos,
         "must read 'name: what is said', has no colon; is it the list of "
         "asterisk-core-sounds-en?");
    const std::string_view name = line.substr(0, colon);
    fail(is_safe_name(name), "must begin with the name of a sound, got '", name,
         "'");
    fail(names.emplace(name).second, "must name each sound once, has '", name,
         "' again");
    prompts.push_back({std::string(name), std::string(line.substr(colon + 1))});
  });
  return prompts;
}

}  // namespace sluice
