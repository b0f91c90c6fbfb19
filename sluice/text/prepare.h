#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/text/token_cache.h"
#include "sluice/text/tokenizer.h"
#include "sluice/text/vocabulary.h"

// Texts of three parts into tokens.

namespace sluice {

using ThreeTexts = std::array<std::string_view, 3>;  // train, valid, test

// Words of the training text by falling frequency, then alphabet; at most
// `most` (0: all), the rarer ones become <unk>. `add_special` puts <unk> and
// <eos> first, whether they occur or not. Words outside become <unk> where the
// vocabulary has it, else are left out and counted.
PreparedText prepare_by_frequency(const ThreeTexts& texts, bool add_special,
                                  std::size_t most = 0);

// Words in order of their appearance over all three.
PreparedText prepare_in_order(const ThreeTexts& texts);

// By a tokeniser that is there already.
PreparedText prepare_with(Tokenizer& tokenizer, const ThreeTexts& texts);

// `tokens` as in "word", "byte" or "bpe"; null for words, which are found in
// the text itself.
std::unique_ptr<Tokenizer> tokenizer_for(const std::string& tokens,
                                         const std::string& folder);

// What decides about the tokens beside the text: for a cache's key.
std::string signature(const Tokenizer* tokenizer);

}  // namespace sluice
