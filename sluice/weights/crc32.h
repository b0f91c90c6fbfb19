#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

// Tables of the CRC of a byte with 0 to 7 zero bytes behind it.
inline constexpr auto kCrc32Tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
    }
    tables[0][i] = crc;
  }
  for (std::size_t i = 0; i < 256; ++i) {
    for (std::size_t t = 1; t < 8; ++t) {
      const std::uint32_t crc = tables[t - 1][i];
      tables[t][i] = tables[0][crc & 0xffU] ^ (crc >> 8);
    }
  }
  return tables;
}();

// CRC-32 as zip has it (reflected, polynomial 0xedb88320), 8 bytes at a time.
inline std::uint32_t crc32(std::span<const std::byte> bytes) {
  const auto& t = kCrc32Tables;
  const auto at = [&](std::size_t i) {
    return static_cast<std::uint32_t>(bytes[i]);
  };
  std::uint32_t crc = ~0U;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint32_t low =
        crc ^ (at(i) | at(i + 1) << 8 | at(i + 2) << 16 | at(i + 3) << 24);
    crc = t[7][low & 0xffU] ^ t[6][(low >> 8) & 0xffU] ^
          t[5][(low >> 16) & 0xffU] ^ t[4][low >> 24] ^ t[3][at(i + 4)] ^
          t[2][at(i + 5)] ^ t[1][at(i + 6)] ^ t[0][at(i + 7)];
  }
  for (; i < bytes.size(); ++i) {
    crc = t[0][(crc ^ at(i)) & 0xffU] ^ (crc >> 8);
  }
  return ~crc;
}

}  // namespace sluice
