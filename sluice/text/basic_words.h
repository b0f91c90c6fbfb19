#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/text/unicode.h"

namespace sluice {

// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// A word as BERT's basic tokeniser makes it.
class BasicWord {
 public:
  // Its bytes stand one to one from `begin` on.
  BasicWord(std::string_view text, std::size_t begin)
      : text_(text), begin_(begin) {}
  // Byte i was made from `origins[i]`.
  BasicWord(std::string_view text, std::span<const ByteRange> origins)
      : text_(text), origins_(origins) {}

  std::string_view text() const { return text_; }
  // What bytes [from, to) of text() (not none) were made from.
  ByteRange origin(std::size_t from, std::size_t to) const;

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::span<const ByteRange> origins_{};
};

// BERT's basic tokeniser (Devlin et al. 2018): without control characters (Cc,
// Cf, U+0000, U+FFFD), split at blanks, around punctuation (P* and all symbols
// of ASCII) and CJK characters; for uncased models in lower case and without
// accents.
class BasicWords {
 public:
  explicit BasicWords(bool lower) : lower_(lower) {}

  // Words are good during the call. Throws std::invalid_argument where the text
  // is no UTF-8.
  void for_each(std::string_view text,
                const std::function<void(const BasicWord&)>& take);

 private:
  using Take = std::function<void(const BasicWord&)>;
  std::size_t ascii(std::string_view text, std::size_t at, std::size_t end,
                    const Take& take);
  std::size_t wide(std::string_view text, std::size_t at, const Take& take);
  void wide_word(const Take& take);
  void adopt_dropped();
  void give(std::size_t begin, std::size_t end, const Take& take);

  bool lower_;
  // Of the word under way, kept for their memory.
  std::string letters_;
  std::u32string chars_;
  std::vector<ByteRange> places_;   // of chars_
  std::vector<ByteRange> origins_;  // of the bytes of letters_
  std::vector<FromChar> normal_;
};

}  // namespace sluice
