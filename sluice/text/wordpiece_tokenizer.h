#pragma once

#include "sluice/text/basic_words.h"
#include "sluice/text/tokenizer.h"
#include "sluice/text/vocabulary.h"
#include "sluice/text/word_cache.h"

namespace sluice {

// A token and the bytes of the text that it was made from.
struct PlacedToken {
  std::int32_t id = 0;
  ByteRange place{};
  friend bool operator==(const PlacedToken&, const PlacedToken&) = default;
};

// BERT's WordPiece: basic words (basic_words.h), each cut into the longest
// pieces of vocab.txt from left to right; pieces inside a word begin with ##. A
// word that cannot be cut so, or is longer than 100 characters, is one [UNK].
class WordPieceTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "wordpiece";
  static constexpr std::string_view kSummary =
      "WordPiece as BERT; vocab.txt, a piece per line, [UNK] among them";
  struct Params {
    bool lower = true;
    std::int64_t longest = 100;
  };
  static ParamList list(Params& p);

  WordPieceTokenizer(const Params& params, const TokenizerPlace& place);
  // Throws std::runtime_error if it lacks [UNK].
  WordPieceTokenizer(const Params& params, Vocabulary words);

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& out) override;
  // The same tokens, and where they came from.
  std::vector<PlacedToken> encode_placed(std::string_view text);
  // Pieces with ## joined, words with a blank between them.
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t size() const override {
    return static_cast<std::int64_t>(words_.size());
  }
  const Vocabulary& words() const { return words_; }

 private:
  // Good until the next call.
  std::span<const std::int32_t> pieces_of(std::string_view word);
  bool cut(std::string_view word);

  Vocabulary words_;
  Params params_;
  std::int32_t unknown_ = 0;
  std::size_t longest_piece_ = 0;  // in bytes, with ##
  BasicWords basic_;
  WordCache cache_;
  std::vector<std::int32_t> pieces_;
  std::string letters_;
};

}  // namespace sluice
