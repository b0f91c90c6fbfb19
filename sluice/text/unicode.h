#pragma once

#include <string>
#include <string_view>
#include <vector>

// Properties of characters, from ICU (unicode.cpp). A build without it
// (no_icu.cpp) knows ASCII alone: there everything else throws
// std::runtime_error, saying what to install.

namespace sluice {

bool has_icu();

// By the general category of Unicode.
enum class CharKind : unsigned char {
  kLetter,       // L*
  kNumber,       // N*
  kMark,         // Mn: accents and the like
  kPunctuation,  // P*
  kControl,      // Cc, Cf
  kBlank,        // Zs, Zl, Zp
  kOther,
};

CharKind kind_of(char32_t c);

// The property White_Space, which takes no tables.
constexpr bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

// Where Python's str.split() splits: four separators of ASCII more.
constexpr bool is_blank(char32_t c) {
  return is_white_space(c) || (c >= 0x1c && c <= 0x1f);
}

// Lower case by the rules that hold everywhere (no language's own), with the
// Greek final sigma. Throws std::invalid_argument unless it is UTF-8.
std::string lower_case(std::string_view utf8);

// A character of a normalised word, and which character of the word it was.
struct FromChar {
  char32_t value = 0;
  std::size_t origin = 0;
};

// Lower case, then without accents: decomposed (NFD) and without marks (Mn).
// The same as doing so to the whole string, but says what came from where.
std::vector<FromChar> lower_without_accents(const std::u32string& word);

}  // namespace sluice
