#include "sluice/text/unicode.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

UChar32 wide(char32_t c) { return static_cast<UChar32>(c); }

const icu::Normalizer2& nfd() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = icu::Normalizer2::getNFDInstance(error);
  ensure(U_SUCCESS(error) != 0,
         "[unicode] ICU must have its data: ", u_errorName(error));
  return *form;
}

bool is_cased(char32_t c) { return u_hasBinaryProperty(wide(c), UCHAR_CASED); }
bool is_ignorable(char32_t c) {
  return u_hasBinaryProperty(wide(c), UCHAR_CASE_IGNORABLE);
}

// Final_Sigma of the Unicode standard, section 3.13.
bool is_final(const std::u32string& word, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_ignorable(word[before - 1])) --before;
  if (before == 0 || !is_cased(word[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < word.size() && is_ignorable(word[after])) ++after;
  return after == word.size() || !is_cased(word[after]);
}

icu::UnicodeString lower_of(const std::u32string& word, std::size_t i) {
  constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2;
  if (word[i] == kSigma && is_final(word, i)) {
    return icu::UnicodeString(wide(kFinalSigma));
  }
  return icu::UnicodeString(wide(word[i])).toLower(icu::Locale::getRoot());
}

// Marks that follow a character stand in the order of their classes in NFD; a
// stable sort of each run, as the standard has it.
void put_in_order(std::vector<FromChar>& chars) {
  const auto order = [](const FromChar& c) {
    return u_getCombiningClass(wide(c.value));
  };
  auto at = chars.begin();
  while (at != chars.end()) {
    const auto begin = std::find_if(
        at, chars.end(), [&](const FromChar& c) { return order(c) != 0; });
    at = std::find_if(begin, chars.end(),
                      [&](const FromChar& c) { return order(c) == 0; });
    std::stable_sort(begin, at, [&](const FromChar& a, const FromChar& b) {
      return order(a) < order(b);
    });
  }
}

}  // namespace

bool has_icu() { return true; }

CharKind kind_of(char32_t c) {
  switch (u_charType(wide(c))) {
    case U_UPPERCASE_LETTER:
    case U_LOWERCASE_LETTER:
    case U_TITLECASE_LETTER:
    case U_MODIFIER_LETTER:
    case U_OTHER_LETTER:
      return CharKind::kLetter;
    case U_DECIMAL_DIGIT_NUMBER:
    case U_LETTER_NUMBER:
    case U_OTHER_NUMBER:
      return CharKind::kNumber;
    case U_NON_SPACING_MARK:
      return CharKind::kMark;
    case U_DASH_PUNCTUATION:
    case U_START_PUNCTUATION:
    case U_END_PUNCTUATION:
    case U_CONNECTOR_PUNCTUATION:
    case U_OTHER_PUNCTUATION:
    case U_INITIAL_PUNCTUATION:
    case U_FINAL_PUNCTUATION:
      return CharKind::kPunctuation;
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
      return CharKind::kControl;
    case U_SPACE_SEPARATOR:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
      return CharKind::kBlank;
    default:
      return CharKind::kOther;
  }
}

std::string lower_case(std::string_view utf8) {
  require(first_invalid_utf8(utf8) == std::string_view::npos,
          "[unicode] a text must be UTF-8 to have lower case");
  std::string out;
  icu::UnicodeString::fromUTF8(
      icu::StringPiece(utf8.data(), static_cast<std::int32_t>(utf8.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

std::vector<FromChar> lower_without_accents(const std::u32string& word) {
  const icu::Normalizer2& form = nfd();
  std::vector<FromChar> chars;
  for (std::size_t i = 0; i < word.size(); ++i) {
    UErrorCode error = U_ZERO_ERROR;
    const icu::UnicodeString pieces = form.normalize(lower_of(word, i), error);
    ensure(U_SUCCESS(error) != 0,
           "[unicode] ICU cannot decompose a character: ", u_errorName(error));
    for (std::int32_t k = 0; k < pieces.length();
         k = pieces.moveIndex32(k, 1)) {
      chars.push_back({static_cast<char32_t>(pieces.char32At(k)), i});
    }
  }
  put_in_order(chars);
  std::erase_if(chars, [](const FromChar& c) {
    return u_charType(wide(c.value)) == U_NON_SPACING_MARK;
  });
  return chars;
}

}  // namespace sluice
