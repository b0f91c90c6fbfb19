#pragma once

#include <functional>

#include "sluice/text/tokenizer.h"
#include "sluice/text/vocabulary.h"

namespace sluice {

inline constexpr std::string_view kEndOfLine = "<eos>";

// Gives `take` every word between blanks (where Python's str.split() splits)
// and, after each line, kEndOfLine; also after a last line that lacks its line
// break. Throws std::invalid_argument where the text is no UTF-8.
void for_each_word(std::string_view text,
                   const std::function<void(std::string_view)>& take);

// Words between blanks, and <eos> per line. Words that are not in vocab.txt
// become its <unk>; without one they are an error.
class WordTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "word";
  static constexpr std::string_view kSummary =
      "words between blanks and <eos> per line; vocab.txt, a word per line";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  WordTokenizer(const Params&, const TokenizerPlace& place);
  explicit WordTokenizer(Vocabulary words);

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& out) override;
  // Words with blanks between them; <eos> becomes a line break.
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t size() const override {
    return static_cast<std::int64_t>(words_.size());
  }
  const Vocabulary& words() const { return words_; }

 private:
  Vocabulary words_;
};

}  // namespace sluice
