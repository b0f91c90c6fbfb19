#pragma once

#include <string_view>

namespace sluice {

// Deeper than anything we write, and shallow enough for code that recurses.
inline constexpr int kJsonDepth = 64;

// Throws std::invalid_argument, beginning with `where` and with line and column
// for mistakes of syntax, unless `text` is JSON in UTF-8 of at most kJsonDepth
// levels that has each key of an object once. For whatever comes from outside,
// before it is read.
void check_json(std::string_view where, std::string_view text);
// What the JSON library says of a mistake, without the number that it begins
// with ("[json.exception.type_error.302] ").
std::string_view json_problem(std::string_view what);
bool is_sound_json(std::string_view text);

}  // namespace sluice
