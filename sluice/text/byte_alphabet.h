#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// GPT-2's way to write bytes as characters that can be seen, so that merges are
// plain text: bytes that print in Latin-1 are themselves, the others are U+0100
// onwards, in order.
class ByteAlphabet {
 public:
  ByteAlphabet();

  char32_t character(unsigned char byte) const { return characters_[byte]; }
  std::string written(std::string_view bytes) const;
  // The bytes that `written` stands for; none if some character stands for no
  // byte, or it is no UTF-8.
  std::optional<std::string> read(std::string_view written) const;

  // All bytes in the order of their numbers in GPT-2's vocabulary: those that
  // print first.
  const std::array<unsigned char, 256>& order() const { return order_; }

 private:
  std::array<char32_t, 256> characters_{};
  std::array<unsigned char, 256> order_{};
  // Of characters below kEnd: the byte, or -1.
  static constexpr std::size_t kEnd = 0x144;
  std::array<std::int16_t, kEnd> bytes_{};
};

}  // namespace sluice
