#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

// What every model hears, in samples a second.
inline constexpr std::int64_t kSpeechRate = 16'000;

// Changes the rate of audio: a low-pass (a sinc in a Kaiser window, 48 of its
// zeros on either side) at the lower of both rates, evaluated at the times of
// the new samples only.
//
// With f the lower rate: up to 0.445 f within 0.01 dB, from 0.5 f on at least
// 76 dB down. No delay; beyond its ends a clip is silent.
class RateChange {
 public:
  // Throws std::invalid_argument for rates outside [1, kMostSoundRate], and
  // where from : to in lowest terms has a `to` above 1000 (44101 Hz to 16000),
  // which would take a table of its own for each sample.
  RateChange(std::int64_t from, std::int64_t to);

  // ceil(samples * to / from), of each the value at its time.
  std::vector<float> apply(std::span<const float> samples) const;

 private:
  std::uint64_t up_;
  std::uint64_t down_;
  std::size_t half_ = 0;     // taps before and after a time
  std::vector<float> taps_;  // up_ rows of 2 * half_
};

}  // namespace sluice
