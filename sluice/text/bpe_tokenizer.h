#pragma once

#include <array>

#include "sluice/text/bpe_merges.h"
#include "sluice/text/tokenizer.h"
#include "sluice/text/vocabulary.h"
#include "sluice/text/word_cache.h"

namespace sluice {

// GPT-2's byte-level byte-pair encoding (Radford et al. 2019): vocab.json and
// merges.txt of that model or of `sluice data vocab`. Nothing is unknown, and
// decode gives back exactly what was encoded.
//
// The vocabulary must have all 256 bytes. Its end is <|endoftext|>, if it has
// that; a text that spells it does not get it.
class BpeTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "bpe";
  static constexpr std::string_view kSummary =
      "byte-pair encoding as GPT-2; vocab.json and merges.txt";
  struct Params {};
  static ParamList list(Params&) { return {}; }

  struct Model {
    Vocabulary words;
    BpeMerges merges;
  };

  BpeTokenizer(const Params&, const TokenizerPlace& place);
  // Throws std::runtime_error if a byte has no token.
  explicit BpeTokenizer(Model model);

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& out) override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t size() const override {
    return static_cast<std::int64_t>(words_.size());
  }
  const Vocabulary& words() const { return words_; }
  const BpeMerges& merges() const { return merges_; }

 private:
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out);

  Vocabulary words_;
  BpeMerges merges_;
  std::array<std::int32_t, 256> bytes_{};
  std::vector<std::string> texts_;  // of tokens
  WordCache cache_;
  std::vector<std::int32_t> piece_;
};

}  // namespace sluice
