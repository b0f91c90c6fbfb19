#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace sluice {

// A whole number from `least` to `most`, and nothing else: anyone may have
// written the file, and the JSON library turns fractions and numbers of any
// size into integers without a word.
template <class Json>
std::optional<std::uint64_t> count_in(
    const Json& value, std::uint64_t least = 0,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto count = value.template get<std::uint64_t>();
  if (count < least || count > most) return std::nullopt;
  return count;
}

}  // namespace sluice
