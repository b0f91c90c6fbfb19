#include "audio_support.h"

namespace sluice::testing {
namespace {

template <class T>
void append(Bytes& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to.push_back(static_cast<std::uint8_t>(value >> (8 * i) & 0xff));
  }
}

void append(Bytes& to, const char* text) {
  for (; *text != 0; ++text) to.push_back(static_cast<std::uint8_t>(*text));
}

}  // namespace

Bytes raw(const std::vector<std::int16_t>& samples) {
  Bytes bytes;
  for (const std::int16_t value : samples) {
    append(bytes, static_cast<std::uint16_t>(value));
  }
  return bytes;
}

Bytes wav(const std::vector<std::int16_t>& samples, std::uint32_t rate,
          std::uint16_t channels) {
  const Bytes data = raw(samples);
  const auto size = static_cast<std::uint32_t>(data.size());
  Bytes file;
  append(file, "RIFF");
  append(file, std::uint32_t{36 + size});
  append(file, "WAVEfmt ");
  append(file, std::uint32_t{16});
  append(file, std::uint16_t{1});
  append(file, channels);
  append(file, rate);
  append(file, std::uint32_t{rate * channels * 2});
  append(file, static_cast<std::uint16_t>(channels * 2));
  append(file, std::uint16_t{16});
  append(file, "data");
  append(file, size);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

std::vector<std::int16_t> tone(double frequency, std::int64_t rate,
                               double seconds) {
  const auto count =
      static_cast<std::size_t>(seconds * static_cast<double>(rate));
  std::vector<std::int16_t> samples;
  for (const float value : sine(frequency, rate, count)) {
    samples.push_back(static_cast<std::int16_t>(std::lround(value * 32767)));
  }
  return samples;
}

}  // namespace sluice::testing
