#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/text/vocabulary.h"

// The tokenisers of the library once more, in the plainest way that is right:
// whole strings, no cache, no short ways. Only for tests, which compare.

namespace sluice::testing {

// The pieces of GPT-2's pattern, tried alternative by alternative.
std::vector<std::string> reference_gpt2_pieces(std::string_view text);

// As GPT-2's own code: all of the pair that comes first, again and again.
std::vector<std::string> reference_bpe(
    const std::vector<std::pair<std::string, std::string>>& merges,
    const std::vector<std::string>& characters);

// Basic words by ICU on whole strings; then longest match first.
std::vector<std::string> reference_basic_words(std::string_view text,
                                               bool lower);
std::vector<std::string> reference_wordpiece(const Vocabulary& words,
                                             std::string_view text);

// Texts to compare on: ASCII, Unicode of many scripts, what breaks tokenisers.
std::vector<std::string> sample_texts();
// `n` code points, by a fixed seed; `wide` says how many of a hundred are not
// ASCII.
std::string random_text(std::uint64_t seed, std::size_t n, int wide);

}  // namespace sluice::testing
