#include "sluice/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

std::size_t length_by_first(unsigned first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const std::size_t length = length_by_first(first);
  if (length == 0 || text.size() - at < length) return {};
  char32_t value = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte_at(text, at + i);
    if ((next & 0xc0U) != 0x80) return {};
    value = value << 6 | (next & 0x3fU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10ffff ||
      (value >= 0xd800 && value < 0xe000)) {
    return {};
  }
  return {value, length};
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    // Eight ASCII characters at a time: most texts are little else.
    std::uint64_t word = 0;
    while (i + 8 <= text.size()) {
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080ULL) != 0) break;
      i += 8;
    }
    if (i == text.size()) break;
    const std::size_t bytes = code_point_at(text, i).bytes;
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& to, char32_t c) {
  const auto put = [&](char32_t bits) { to += static_cast<char>(bits); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::size_t count_code_points(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

void check_utf8(std::string_view owner, const std::string& path,
                std::string_view text) {
  const std::size_t at = first_invalid_utf8(text);
  if (at == std::string_view::npos) return;
  const auto line =
      1 + std::count(text.begin(),
                     text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  ensure(false, "[", owner, "] '", path, "' must be UTF-8, line ", line,
         " (byte ", at,
         " of the file) is not; convert it, as in iconv -f "
         "latin1 -t utf-8");
}

std::string read_utf8_file(std::string_view owner, const std::string& path,
                           std::size_t most) {
  std::string text = read_text_file(owner, path, most);
  check_utf8(owner, path, text);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

}  // namespace sluice
