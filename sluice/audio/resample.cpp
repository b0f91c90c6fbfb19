#include "sluice/audio/resample.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "sluice/audio/sound.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr double kZeros = 48;
// Kaiser's formulas for 80 dB: the shape, and the width of the transition in
// cycles per sample of the lower rate.
constexpr double kBeta = 0.1102 * (80 - 8.7);
constexpr double kTransition = (80 - 7.95) / (14.36 * 2 * kZeros);
constexpr std::uint64_t kMostPhases = 1000;

// The modified Bessel function of order 0, by its series.
double bessel_i0(double x) {
  double sum = 1;
  double term = 1;
  for (int k = 1; term > sum * 1e-16; ++k) {
    term *= (x / 2 / k) * (x / 2 / k);
    sum += term;
  }
  return sum;
}

double kaiser(double u) {
  if (std::abs(u) >= 1) return 0;
  return bessel_i0(kBeta * std::sqrt(1 - u * u)) / bessel_i0(kBeta);
}

double sinc(double x) {
  if (x == 0) return 1;
  return std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

void check_rate(std::int64_t rate) {
  require(rate >= 1 && rate <= kMostSoundRate,
          "[resample] a rate must be from 1 to ", kMostSoundRate, " Hz, got ",
          rate);
}

// Several sums side by side: the compiler may not reorder one, but these it can
// compute at once.
float dot(const float* a, const float* b, std::size_t n) {
  constexpr std::size_t kLanes = 8;
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  }
  float sum = 0;
  for (const float lane : sums) sum += lane;
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

RateChange::RateChange(std::int64_t from, std::int64_t to) {
  check_rate(from);
  check_rate(to);
  const std::int64_t common = std::gcd(from, to);
  up_ = static_cast<std::uint64_t>(to / common);
  down_ = static_cast<std::uint64_t>(from / common);
  if (up_ == down_) return;
  require(up_ <= kMostPhases, "[resample] ", from, " Hz to ", to,
          " Hz must be a ratio of at most ", kMostPhases,
          " in lowest terms, is ", down_, " : ", up_, "; convert the audio to ",
          to, " Hz first");
  // In cycles per sample of the input.
  const double lower =
      std::min(1.0, static_cast<double>(up_) / static_cast<double>(down_));
  const double cutoff = lower * (0.5 - kTransition / 2);
  const double reach = kZeros / lower;
  half_ = static_cast<std::size_t>(std::ceil(reach));
  taps_.resize(up_ * 2 * half_);
  for (std::uint64_t phase = 0; phase < up_; ++phase) {
    float* row = &taps_[phase * 2 * half_];
    const double at = static_cast<double>(phase) / static_cast<double>(up_) +
                      static_cast<double>(half_) - 1;
    double sum = 0;
    for (std::size_t j = 0; j < 2 * half_; ++j) {
      const double t = at - static_cast<double>(j);
      const double tap = sinc(2 * cutoff * t) * kaiser(t / reach);
      row[j] = static_cast<float>(tap);
      sum += tap;
    }
    // Silence and constants must come out alike in every phase.
    for (std::size_t j = 0; j < 2 * half_; ++j) {
      row[j] = static_cast<float>(row[j] / sum);
    }
  }
}

std::vector<float> RateChange::apply(std::span<const float> samples) const {
  if (up_ == down_) return {samples.begin(), samples.end()};
  std::vector<float> padded(samples.size() + 2 * half_);
  std::copy(samples.begin(), samples.end(),
            padded.begin() + static_cast<std::ptrdiff_t>(half_) - 1);
  const std::uint64_t count = (samples.size() * up_ + down_ - 1) / down_;
  std::vector<float> out(count);
  std::uint64_t at = 0;     // whole input samples
  std::uint64_t phase = 0;  // and parts of one
  for (float& value : out) {
    value = dot(&taps_[phase * 2 * half_], &padded[at], 2 * half_);
    phase += down_;
    at += phase / up_;
    phase %= up_;
  }
  return out;
}

}  // namespace sluice
