#include <stdexcept>

#include "sluice/text/unicode.h"

namespace sluice {
namespace {

[[noreturn]] void need_icu() {
  throw std::runtime_error(
      "[unicode] characters beyond ASCII need a build with ICU, got one "
      "without; install libicu-dev, configure and build again");
}

CharKind kind_of_ascii(char32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return CharKind::kLetter;
  if (c >= '0' && c <= '9') return CharKind::kNumber;
  if (c < 0x20 || c == 0x7f) return CharKind::kControl;
  if (c == ' ') return CharKind::kBlank;
  for (const char symbol : {'$', '+', '<', '=', '>', '^', '`', '|', '~'}) {
    if (c == static_cast<char32_t>(symbol)) return CharKind::kOther;
  }
  return CharKind::kPunctuation;
}

char32_t lower_ascii(char32_t c) {
  if (c >= 0x80) need_icu();
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

}  // namespace

bool has_icu() { return false; }

CharKind kind_of(char32_t c) {
  if (c >= 0x80) need_icu();
  return kind_of_ascii(c);
}

std::string lower_case(std::string_view utf8) {
  std::string out;
  for (const char c : utf8) {
    out += static_cast<char>(lower_ascii(static_cast<unsigned char>(c)));
  }
  return out;
}

std::vector<FromChar> lower_without_accents(const std::u32string& word) {
  std::vector<FromChar> chars;
  for (std::size_t i = 0; i < word.size(); ++i) {
    chars.push_back({lower_ascii(word[i]), i});
  }
  return chars;
}

}  // namespace sluice
