#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "files.h"

namespace sluice::testing {

// A sine of so many Hz.
inline std::vector<float> sine(double frequency, std::int64_t rate,
                               std::size_t samples, double loudness = 0.5) {
  std::vector<float> values(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    values[i] = static_cast<float>(
        loudness *
        std::sin(2 * std::numbers::pi * frequency * static_cast<double>(i) /
                 static_cast<double>(rate)));
  }
  return values;
}

// A WAV file of 16-bit samples, made by hand; channels are interleaved.
Bytes wav(const std::vector<std::int16_t>& samples, std::uint32_t rate,
          std::uint16_t channels = 1);

// The samples of a clip of `seconds` at `rate`.
std::vector<std::int16_t> tone(double frequency, std::int64_t rate,
                               double seconds);

// Headerless samples.
Bytes raw(const std::vector<std::int16_t>& samples);

inline void write_text_to(const std::string& path, const std::string& text) {
  write_bytes(path, Bytes(text.begin(), text.end()));
}

}  // namespace sluice::testing
