#include "sluice/torch/data/spectrogram.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <vector>

#include "files.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

std::vector<float> clip_of(std::size_t samples) {
  std::vector<float> clip(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    const double noise = static_cast<double>(mix64(7, i) >> 11) * 0x1p-53 - 0.5;
    clip[i] = static_cast<float>(0.5 * std::sin(0.3 * static_cast<double>(i)) +
                                 0.1 * noise);
  }
  return clip;
}

std::vector<float> spectrogram_of(std::span<const float> clip) {
  std::vector<float> out(kSpectrumBins * spectrogram_frames(clip.size()));
  write_spectrogram(clip, out);
  return out;
}

// The clip beyond its ends: mirrored, without the end itself twice.
double mirrored(std::span<const float> clip, std::ptrdiff_t at) {
  const auto size = static_cast<std::ptrdiff_t>(clip.size());
  if (at < 0) at = -at;
  if (at >= size) at = 2 * (size - 1) - at;
  return clip[static_cast<std::size_t>(at)];
}

// From the definition, sum by sum, in double.
std::vector<double> direct(std::span<const float> clip) {
  const std::size_t frames = spectrogram_frames(clip.size());
  std::vector<double> values(kSpectrumBins * frames);
  for (std::size_t f = 0; f < frames; ++f) {
    for (std::size_t k = 0; k < kSpectrumBins; ++k) {
      std::complex<double> sum = 0;
      for (std::size_t n = 0; n < kSpectrumWindow; ++n) {
        const double turn = 2 * std::numbers::pi / kSpectrumWindow;
        const double window = 0.54 - 0.46 * std::cos(turn * double(n));
        const auto at = static_cast<std::ptrdiff_t>(f * kSpectrumStride + n) -
                        static_cast<std::ptrdiff_t>(kSpectrumWindow / 2);
        sum += std::polar(window * mirrored(clip, at),
                          -turn * static_cast<double>(k * n));
      }
      values[k * frames + f] = std::log1p(std::abs(sum));
    }
  }
  const auto count = static_cast<double>(values.size());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  for (double& v : values) v = (v - mean) / deviation;
  return values;
}

TEST(Spectrogram, IsTheDirectTransform) {
  for (const std::size_t samples : {161, 320, 1000, 1600}) {
    const auto clip = clip_of(samples);
    const auto values = spectrogram_of(clip);
    const auto expected = direct(clip);
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 2e-4) << samples << " at " << i;
    }
  }
}

TEST(Spectrogram, HasAFrameEveryTenMilliseconds) {
  EXPECT_EQ(spectrogram_frames(16000), 101U);
  EXPECT_EQ(spectrogram_frames(161), 2U);
  EXPECT_EQ(spectrogram_frames(319), 2U);
}

TEST(Spectrogram, IsNormalisedWhateverTheLoudness) {
  auto clip = clip_of(16000);
  for (const float gain : {1.0F, 0.01F}) {
    for (float& value : clip) value *= gain;
    const auto values = spectrogram_of(clip);
    double sum = 0;
    double squares = 0;
    for (const float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 1e-4);
    EXPECT_NEAR(squares / count, 1, 1e-3);
  }
}

TEST(Spectrogram, OfSilenceIsZero) {
  for (const float value : spectrogram_of(std::vector<float>(800))) {
    EXPECT_EQ(value, 0.0F);
  }
}

TEST(Spectrogram, RefusesClipsThatAreTooShort) {
  std::vector<float> out(kSpectrumBins * 2);
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { write_spectrogram(std::vector<float>(160), out); }),
            "[spectrogram] a clip must have at least 161 samples (10 ms), got "
            "160; leave it out");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { write_spectrogram(std::vector<float>(16000), out); }),
            "[spectrogram] 16000 samples make 161 x 101 values, got room for "
            "322");
}

}  // namespace
}  // namespace sluice::testing
