#include "sluice/report/markup.h"

#include <algorithm>

namespace sluice {
namespace {

bool goes_on(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Bytes of the character that begins there; 0 if none does.
std::size_t character_at(std::string_view text, std::size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  const std::size_t length = c < 0x80U                  ? 1
                             : c >= 0xC2U && c < 0xE0U  ? 2
                             : (c & 0xF0U) == 0xE0U     ? 3
                             : c >= 0xF0U && c <= 0xF4U ? 4
                                                        : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t j = 1; j < length; ++j) {
    if (!goes_on(text[i + j])) return 0;
  }
  if (length < 3) return length;
  // Longer forms than need be, halves of pairs, and what is beyond Unicode.
  const auto second = static_cast<unsigned char>(text[i + 1]);
  const bool wrong =
      (c == 0xE0U && second < 0xA0U) || (c == 0xEDU && second >= 0xA0U) ||
      (c == 0xF0U && second < 0x90U) || (c == 0xF4U && second >= 0x90U);
  return wrong ? 0 : length;
}

std::string replaced(char c) {
  switch (c) {
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      break;
  }
  const auto u = static_cast<unsigned char>(c);
  const bool control = (u < 0x20U && c != '\n' && c != '\t') || u == 0x7FU;
  return {control ? '?' : c};
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_at(text, i);
    if (length <= 1) {
      out += length == 0 ? "?" : replaced(text[i]);
      ++i;
      continue;
    }
    out += text.substr(i, length);
    i += length;
  }
  return out;
}

std::string encode_path(std::string_view path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~";
  constexpr const char* kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto u = static_cast<unsigned char>(c);
    out += {'%', kHex[u >> 4U], kHex[u & 0xFU]};
  }
  return out;
}

std::size_t text_length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return !goes_on(c); }));
}

std::string shorten(std::string_view text, std::size_t most) {
  if (text_length(text) <= most) return std::string(text);
  std::size_t count = 0;
  std::size_t end = 0;
  while (end < text.size() && (count + 1 < most || goes_on(text[end]))) {
    ++end;
    if (end < text.size() && !goes_on(text[end])) ++count;
  }
  return std::string(text.substr(0, end)) + "\u2026";
}

}  // namespace sluice
