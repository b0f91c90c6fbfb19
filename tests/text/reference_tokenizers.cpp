#include "reference_tokenizers.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <random>

#include "sluice/text/utf8.h"

namespace sluice::testing {
namespace {

std::string utf8_of(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString wide_of(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

bool category_in(UChar32 c, std::int32_t mask) {
  return (U_MASK(u_charType(c)) & static_cast<std::uint32_t>(mask)) != 0;
}

bool reference_punctuation(UChar32 c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126) || category_in(c, U_GC_P_MASK);
}

bool reference_cjk(UChar32 c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// Clean, blanks as ' ', blanks around CJK.
icu::UnicodeString cleaned(const icu::UnicodeString& text) {
  icu::UnicodeString out;
  for (std::int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if (c == '\t' || c == '\n' || c == '\r' || category_in(c, U_GC_Z_MASK)) {
      out.append(static_cast<UChar32>(' '));
    } else if (c == 0 || c == 0xfffd ||
               category_in(c, U_GC_CC_MASK | U_GC_CF_MASK)) {
      continue;
    } else if (reference_cjk(c)) {
      out.append(static_cast<UChar32>(' ')).append(c);
      out.append(static_cast<UChar32>(' '));
    } else {
      out.append(c);
    }
  }
  return out;
}

icu::UnicodeString stripped(const icu::UnicodeString& word) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::UnicodeString nfd =
      icu::Normalizer2::getNFDInstance(error)->normalize(word, error);
  icu::UnicodeString out;
  for (std::int32_t i = 0; i < nfd.length(); i = nfd.moveIndex32(i, 1)) {
    if (!category_in(nfd.char32At(i), U_GC_MN_MASK)) {
      out.append(nfd.char32At(i));
    }
  }
  return out;
}

void split_punctuation(const icu::UnicodeString& word,
                       std::vector<std::string>& out) {
  icu::UnicodeString current;
  for (std::int32_t i = 0; i < word.length(); i = word.moveIndex32(i, 1)) {
    const UChar32 c = word.char32At(i);
    if (reference_punctuation(c)) {
      if (!current.isEmpty()) out.push_back(utf8_of(current));
      out.push_back(utf8_of(icu::UnicodeString(c)));
      current.remove();
    } else {
      current.append(c);
    }
  }
  if (!current.isEmpty()) out.push_back(utf8_of(current));
}

std::vector<std::string> pieces_of(const Vocabulary& words,
                                   const std::string& word) {
  const icu::UnicodeString wide = wide_of(word);
  if (wide.countChar32() > 100) return {"[UNK]"};
  std::vector<std::string> pieces;
  std::int32_t start = 0;
  while (start < wide.length()) {
    std::string found;
    std::int32_t end = wide.length();
    for (; end > start; end = wide.moveIndex32(end, -1)) {
      const std::string piece = (start > 0 ? "##" : "") +
                                utf8_of(wide.tempSubStringBetween(start, end));
      if (words.find(piece)) {
        found = piece;
        break;
      }
    }
    if (found.empty()) return {"[UNK]"};
    pieces.push_back(found);
    start = end;
  }
  return pieces;
}

}  // namespace

std::vector<std::string> reference_gpt2_pieces(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::UnicodeString wide = wide_of(text);
  icu::RegexMatcher matcher(
      icu::UnicodeString::fromUTF8(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+)"),
      wide, 0, error);
  matcher.setStackLimit(0, error);
  std::vector<std::string> pieces;
  while (matcher.find(error)) pieces.push_back(utf8_of(matcher.group(error)));
  return pieces;
}

std::vector<std::string> reference_bpe(
    const std::vector<std::pair<std::string, std::string>>& merges,
    const std::vector<std::string>& characters) {
  std::vector<std::string> word = characters;
  while (true) {
    std::size_t best = merges.size();
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      for (std::size_t m = 0; m < best; ++m) {
        if (merges[m].first == word[i] && merges[m].second == word[i + 1]) {
          best = m;
        }
      }
    }
    if (best == merges.size()) return word;
    std::vector<std::string> next;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (i + 1 < word.size() && word[i] == merges[best].first &&
          word[i + 1] == merges[best].second) {
        next.push_back(word[i] + word[i + 1]);
        ++i;
      } else {
        next.push_back(word[i]);
      }
    }
    word = next;
  }
}

std::vector<std::string> reference_basic_words(std::string_view text,
                                               bool lower) {
  const icu::UnicodeString clean = cleaned(wide_of(text));
  std::vector<std::string> out;
  std::int32_t begin = 0;
  for (std::int32_t i = 0; i <= clean.length(); ++i) {
    if (i < clean.length() && clean.charAt(i) != ' ') continue;
    icu::UnicodeString word = clean.tempSubStringBetween(begin, i);
    if (lower) {
      word.toLower(icu::Locale::getRoot());
      word = stripped(word);
    }
    split_punctuation(word, out);
    begin = i + 1;
  }
  return out;
}

std::vector<std::string> reference_wordpiece(const Vocabulary& words,
                                             std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& word : reference_basic_words(text, true)) {
    for (std::string& piece : pieces_of(words, word)) {
      out.push_back(std::move(piece));
    }
  }
  return out;
}

std::vector<std::string> sample_texts() {
  return {
      "",
      " ",
      "a",
      "Hello, world! It's 2 o'clock; they'll've gone, I'd say.",
      "  two  blanks   three \n\n line\tbreaks \r\n and end  ",
      "''s 'S 'll 're 'r 'v 'ex x's '",
      "na\xc3\xafve caf\xc3\xa9 \xc3\x85ngstr\xc3\xb6m \xc4\xb0stanbul "
      "Stra\xc3\x9f"
      "e",
      "\xce\x9f\xce\x94\xce\xa5\xce\xa3\xce\xa3\xce\x95\xce\xa5\xce\xa3 "
      "\xce\x91'"
      "\xce\xa3 \xce\xa3",
      "\xe4\xb8\xad\xe6\x96\x87 and "
      "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x80\x82"
      "\xed\x95\x9c\xea\xb5\xad\xec\x96\xb4",
      "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87"
      " "
      "\xd9\xa3\xd9\xa4 \xc2\xbd \xe2\x85\xa7 \xc2\xb2",
      "\xf0\x9f\x98\x80\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 "
      "\xe2\x80\x94\xe2\x80\x9cquoted\xe2\x80\x9d\xe2\x80\xa6",
      "zero\xe2\x80\x8bwidth\xc2\xa0no-break\xe3\x80\x80wide\xe2\x80\xa8line",
      std::string("nul\0in\x01side\x7f", 13) + "\xef\xbf\xbd bad",
      "a\xcc\x81\xcc\xa7"
      "e\xcc\xa7\xcc\x81 \xf0\x9d\x85\x97\xf0\x9d\x85\xa5",
      "[UNK] [CLS] ## ##a #a <|endoftext|> \xc2\xa0",
      std::string(300, 'a') + " " + std::string(150, '?'),
      std::string(60, ' ') + "x" + std::string(60, '\n'),
  };
}

std::string random_text(std::uint64_t seed, std::size_t n, int wide) {
  std::mt19937_64 random(seed);
  constexpr char32_t kBlocks[] = {0x80,    0xc0,    0x300,  0x370,  0x400,
                                  0x590,   0x900,   0x1e00, 0x2000, 0x2100,
                                  0x3000,  0x4e00,  0xac00, 0xf900, 0xff00,
                                  0x1d150, 0x1f600, 0x20000};
  std::string text;
  for (std::size_t i = 0; i < n; ++i) {
    if (static_cast<int>(random() % 100) >= wide) {
      const bool plain = random() % 8 != 0;
      append_utf8(text, plain ? "aabbccdeeEsS' \n.,t0"[random() % 19]
                              : static_cast<char32_t>(random() % 128));
    } else {
      append_utf8(text,
                  static_cast<char32_t>(kBlocks[random() % std::size(kBlocks)] +
                                        random() % 0x80));
    }
  }
  return text;
}

}  // namespace sluice::testing
