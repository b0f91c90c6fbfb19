#include "sluice/text/basic_words.h"

#include <algorithm>
#include <array>

#include "sluice/text/tokenizer.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

enum class BasicClass : unsigned char {
  kWord,
  kBlank,
  kPunctuation,
  kWide,  // what takes more than a table: not ASCII, control characters
};

constexpr auto kBasicClasses = [] {
  std::array<BasicClass, 256> table{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9');
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    table[c] = word                  ? BasicClass::kWord
               : blank               ? BasicClass::kBlank
               : c > ' ' && c < 0x7f ? BasicClass::kPunctuation
                                     : BasicClass::kWide;
  }
  return table;
}();

BasicClass class_of(char c) {
  return kBasicClasses[static_cast<unsigned char>(c)];
}

constexpr bool is_cjk(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool is_basic_blank(char32_t c) {
  if (c < 0x80) return kBasicClasses[c] == BasicClass::kBlank;
  return kind_of(c) == CharKind::kBlank;
}

bool is_dropped(char32_t c) {
  if (c < 0x80) return kBasicClasses[c] == BasicClass::kWide;
  return c == 0xfffd || kind_of(c) == CharKind::kControl;
}

bool is_basic_punctuation(char32_t c) {
  if (c < 0x80) return kBasicClasses[c] == BasicClass::kPunctuation;
  return kind_of(c) == CharKind::kPunctuation;
}

}  // namespace

ByteRange BasicWord::origin(std::size_t from, std::size_t to) const {
  if (origins_.empty()) return {begin_ + from, begin_ + to};
  ByteRange range = origins_[from];
  // Decomposing may change the order of marks.
  for (std::size_t i = from + 1; i < to; ++i) {
    range.begin = std::min(range.begin, origins_[i].begin);
    range.end = std::max(range.end, origins_[i].end);
  }
  return range;
}

void BasicWords::for_each(std::string_view text, const Take& take) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (class_of(text[at]) == BasicClass::kBlank) {
      ++at;
      continue;
    }
    // What is in lower case depends on the whole word (Greek sigma), so it is
    // plain ASCII to its end or none of it goes the short way.
    std::size_t end = at;
    while (end < text.size() &&
           (class_of(text[end]) == BasicClass::kWord ||
            class_of(text[end]) == BasicClass::kPunctuation)) {
      ++end;
    }
    const bool plain =
        end == text.size() || class_of(text[end]) == BasicClass::kBlank;
    at = plain ? ascii(text, at, end, take) : wide(text, at, take);
  }
}

std::size_t BasicWords::ascii(std::string_view text, std::size_t at,
                              std::size_t end, const Take& take) {
  letters_.assign(text.substr(at, end - at));
  if (lower_) {
    for (char& c : letters_) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    }
  }
  const std::string_view letters = letters_;
  std::size_t i = 0;
  while (i < letters.size()) {
    std::size_t next = i + 1;
    if (class_of(letters[i]) == BasicClass::kWord) {
      while (next < letters.size() &&
             class_of(letters[next]) == BasicClass::kWord) {
        ++next;
      }
    }
    take(BasicWord(letters.substr(i, next - i), at + i));
    i = next;
  }
  return end;
}

std::size_t BasicWords::wide(std::string_view text, std::size_t at,
                             const Take& take) {
  chars_.clear();
  places_.clear();
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (c.bytes == 0) fail_utf8("wordpiece", at);
    if (is_basic_blank(c.value)) break;
    if (is_cjk(c.value)) {
      wide_word(take);
      chars_.clear();
      places_.clear();
    }
    if (!is_dropped(c.value)) {
      chars_.push_back(c.value);
      places_.push_back({at, at + c.bytes});
    }
    at += c.bytes;
    if (is_cjk(c.value)) break;
  }
  wide_word(take);
  // Past the blank: a wide one would come back here.
  if (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (c.bytes > 0 && is_basic_blank(c.value)) at += c.bytes;
  }
  return at;
}

// Punctuation is looked for in what lower case and decomposing have made.
void BasicWords::wide_word(const Take& take) {
  if (lower_) {
    normal_ = lower_without_accents(chars_);
    adopt_dropped();
  } else {
    normal_.clear();
    for (std::size_t i = 0; i < chars_.size(); ++i) {
      normal_.push_back({chars_[i], i});
    }
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < normal_.size(); ++i) {
    if (!is_basic_punctuation(normal_[i].value)) continue;
    give(begin, i, take);
    give(i, i + 1, take);
    begin = i + 1;
  }
  give(begin, normal_.size(), take);
}

// Accents that were dropped belong to the character they stood behind, so that
// text cut out by places keeps them.
void BasicWords::adopt_dropped() {
  std::vector<bool> kept(chars_.size(), false);
  for (const FromChar& c : normal_) kept[c.origin] = true;
  std::size_t last = 0;
  for (std::size_t i = 1; i < chars_.size(); ++i) {
    if (kept[i]) {
      last = i;
    } else if (kept[last] && places_[last].end == places_[i].begin) {
      places_[last].end = places_[i].end;
    }
  }
}

void BasicWords::give(std::size_t begin, std::size_t end, const Take& take) {
  if (begin == end) return;
  letters_.clear();
  origins_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    append_utf8(letters_, normal_[i].value);
    origins_.resize(letters_.size(), places_[normal_[i].origin]);
  }
  take(BasicWord(letters_, origins_));
}

}  // namespace sluice
