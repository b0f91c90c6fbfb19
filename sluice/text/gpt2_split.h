#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

// GPT-2 first cuts a text into pieces, and merges only inside of them. They are
// the matches of
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// and together make up the whole text. Where the piece that begins at `at`
// (which must lie in `text`, where a piece begins) ends. Throws
// std::invalid_argument where the text is no UTF-8.
std::size_t gpt2_piece_end(std::string_view text, std::size_t at);

}  // namespace sluice
