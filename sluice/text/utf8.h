#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// A code point and how many bytes it takes; no bytes if they are not UTF-8.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};

// The code point at byte `at` (which must lie in `text`). Strict: no overlong
// forms, no surrogates, nothing above U+10FFFF.
CodePoint code_point_at(std::string_view text, std::size_t at);

// Where `text` stops being UTF-8; std::string_view::npos if all of it is.
std::size_t first_invalid_utf8(std::string_view text);

void append_utf8(std::string& to, char32_t c);

std::size_t count_code_points(std::string_view utf8);

// Throws std::runtime_error, naming the file, line and byte, unless `text`,
// which was read from `path`, is UTF-8.
void check_utf8(std::string_view owner, const std::string& path,
                std::string_view text);

inline constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;

// All of a text file in UTF-8, without the byte order mark that some editors
// put in front. Throws std::runtime_error for what cannot be read, is no UTF-8
// or has more than `most` bytes (2 GiB: positions are 32-bit in places).
std::string read_utf8_file(std::string_view owner, const std::string& path,
                           std::size_t most = kMostBytes);

}  // namespace sluice
