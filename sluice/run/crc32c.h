#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr auto kCrc32cTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
    }
    table[i] = crc;
  }
  return table;
}();

// CRC-32C (Castagnoli, reflected, polynomial 0x82f63b78) of `bytes`.
constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc = kCrc32cTable[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^
          (crc >> 8);
  }
  return ~crc;
}

}  // namespace sluice
