#include <array>

#include "sluice/core/error.h"
#include "sluice/text/bpe_tokenizer.h"
#include "sluice/text/byte_tokenizer.h"
#include "sluice/text/tokenizer.h"
#include "sluice/text/word_tokenizer.h"
#include "sluice/text/wordpiece_tokenizer.h"

namespace sluice {
namespace {

constexpr std::array kTokenizers = {
    registry_entry<WordTokenizer, Tokenizer, const TokenizerPlace&>(),
    registry_entry<ByteTokenizer, Tokenizer, const TokenizerPlace&>(),
    registry_entry<BpeTokenizer, Tokenizer, const TokenizerPlace&>(),
    registry_entry<WordPieceTokenizer, Tokenizer, const TokenizerPlace&>(),
};

}  // namespace

std::span<const TokenizerEntry> tokenizers() { return kTokenizers; }

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view text,
                                          const TokenizerPlace& place) {
  return make_from(tokenizers(), Tokenizer::kKind, text, place);
}

void fail_utf8(std::string_view owner, std::size_t byte) {
  throw std::invalid_argument(concat(
      "[", owner, "] a text must be UTF-8, byte ", byte,
      " of this one is not; convert it, as in iconv -f latin1 -t utf-8"));
}

}  // namespace sluice
