#include "sluice/text/gpt2_split.h"

#include <array>

#include "sluice/text/tokenizer.h"
#include "sluice/text/unicode.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

enum class PieceClass : unsigned char { kLetter, kNumber, kSpace, kOther };

constexpr auto kAsciiPieces = [] {
  std::array<PieceClass, 128> table{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    table[c] = letter              ? PieceClass::kLetter
               : number            ? PieceClass::kNumber
               : is_white_space(c) ? PieceClass::kSpace
                                   : PieceClass::kOther;
  }
  return table;
}();

struct Classified {
  PieceClass piece;
  std::size_t bytes;
};

Classified classify_wide(std::string_view text, std::size_t at) {
  const CodePoint c = code_point_at(text, at);
  if (c.bytes == 0) fail_utf8("bpe", at);
  if (is_white_space(c.value)) return {PieceClass::kSpace, c.bytes};
  switch (kind_of(c.value)) {
    case CharKind::kLetter:
      return {PieceClass::kLetter, c.bytes};
    case CharKind::kNumber:
      return {PieceClass::kNumber, c.bytes};
    default:
      return {PieceClass::kOther, c.bytes};
  }
}

inline Classified classify(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 128 ? Classified{kAsciiPieces[byte], 1}
                    : classify_wide(text, at);
}

// Past the characters of class `piece` from `at` on.
inline std::size_t run_end(std::string_view text, std::size_t at,
                           PieceClass piece) {
  while (at < text.size()) {
    const Classified c = classify(text, at);
    if (c.piece != piece) break;
    at += c.bytes;
  }
  return at;
}

// How many bytes 's, 't, 're and so on take at an apostrophe; 0: it is none.
std::size_t contraction(std::string_view rest) {
  if (rest.size() < 2) return 0;
  switch (rest[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return rest.size() > 2 && rest[2] == 'e' ? 3 : 0;
    case 'l':
      return rest.size() > 2 && rest[2] == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

// White space: all of it at the end of the text; else all but its last
// character, which may belong to the word behind; else that character.
std::size_t space_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t end = at;
  while (end < text.size()) {
    const Classified c = classify(text, end);
    if (c.piece != PieceClass::kSpace) break;
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

}  // namespace

std::size_t gpt2_piece_end(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t n = contraction(text.substr(at))) return at + n;
  }
  std::size_t first = at;
  if (text[at] == ' ' && at + 1 < text.size()) ++first;
  const Classified c = classify(text, first);
  if (c.piece == PieceClass::kSpace) return space_end(text, at);
  return run_end(text, first + c.bytes, c.piece);
}

}  // namespace sluice
