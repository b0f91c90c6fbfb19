#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// What a terminal can show.

namespace sluice {

// Columns of the terminal behind a file descriptor: what it says itself, else
// COLUMNS, else `otherwise`.
std::size_t terminal_columns(int fd, std::size_t otherwise = 80);

// Whether colours may be written there: to a terminal that knows them, unless
// NO_COLOR is set.
bool has_colours(int fd);

// Those of `parts` that fit into `columns`, the first ones first, with two
// spaces between them. A first part that is too long is cut.
std::string fit_parts(const std::vector<std::string>& parts,
                      std::size_t columns);

// Lines of at most `columns`, broken at spaces; a longer word has a line of
// its own.
std::string wrap(std::string_view text, std::size_t columns);

// "42 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

}  // namespace sluice
