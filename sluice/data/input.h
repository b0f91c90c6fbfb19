#pragma once

#include <cstdint>

namespace sluice {

// What a model is fed and what it tells apart: images of channels x height x
// width, and the number of classes.
struct Input {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t classes = 10;

  constexpr std::int64_t pixels() const { return channels * height * width; }
  friend bool operator==(const Input&, const Input&) = default;
};

}  // namespace sluice
