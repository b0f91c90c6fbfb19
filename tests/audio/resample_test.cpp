#include "sluice/audio/resample.h"

#include <algorithm>

#include "audio_support.h"

namespace sluice::testing {
namespace {

constexpr double kLoudness = 0.5;

// How much louder the middle of a resampled sine is than it was, in dB; its
// ends hear the silence around it.
double gain(double frequency, std::int64_t from, std::int64_t to) {
  const auto in =
      sine(frequency, from, static_cast<std::size_t>(from), kLoudness);
  const auto out = RateChange(from, to).apply(in);
  double squares = 0;
  const std::size_t begin = out.size() / 4;
  const std::size_t end = out.size() - begin;
  for (std::size_t i = begin; i < end; ++i) {
    squares += static_cast<double>(out[i]) * out[i];
  }
  const double rms = std::sqrt(squares / static_cast<double>(end - begin));
  return 20 * std::log10(rms / (kLoudness / std::sqrt(2.0)) + 1e-12);
}

TEST(RateChange, KeepsThePassband) {
  for (const std::int64_t from : {8000, 11025, 22050, 44100, 48000, 96000}) {
    const double lower =
        static_cast<double>(std::min<std::int64_t>(from, 16000));
    for (const double part : {0.01, 0.1, 0.25, 0.4, 0.445}) {
      EXPECT_NEAR(gain(part * lower, from, 16000), 0, 0.01)
          << from << " Hz, " << part;
    }
  }
}

// What would come back as another frequency must be gone.
TEST(RateChange, LetsNothingAlias) {
  for (const std::int64_t from : {22050, 44100, 48000, 96000, 192000}) {
    for (const double frequency : {8000.0, 8100.0, 9000.0, 10500.0, 20000.0}) {
      if (frequency >= static_cast<double>(from) / 2) continue;
      EXPECT_LT(gain(frequency, from, 16000), -75)
          << from << " Hz, " << frequency;
    }
  }
}

// The images of a sine of 3 kHz, sampled at 8 kHz, lie at 5 kHz.
TEST(RateChange, GivesTheSineOfTheNewRate) {
  for (const std::int64_t from : {8000, 11025, 44100}) {
    const auto out =
        RateChange(from, 16000)
            .apply(sine(3000, from, static_cast<std::size_t>(from)));
    const auto expected = sine(3000, 16000, 16000);
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 2000; i < 14000; ++i) {
      ASSERT_NEAR(out[i], expected[i], 3e-4) << from << " at " << i;
    }
  }
}

TEST(RateChange, CountsSamplesUpwards) {
  EXPECT_EQ(RateChange(8000, 16000).apply(std::vector<float>(5)).size(), 10U);
  EXPECT_EQ(RateChange(48000, 16000).apply(std::vector<float>(4)).size(), 2U);
  EXPECT_EQ(RateChange(44100, 16000).apply(std::vector<float>(1)).size(), 1U);
  EXPECT_TRUE(RateChange(8000, 16000).apply({}).empty());
}

TEST(RateChange, LeavesEqualRatesAlone) {
  const auto in = sine(440, 16000, 100);
  EXPECT_EQ(RateChange(16000, 16000).apply(in), in);
}

TEST(RateChange, RefusesRatesItCannotChange) {
  const auto refusal = [](std::int64_t from) {
    return message_of<std::invalid_argument>([&] { RateChange(from, 16000); });
  };
  EXPECT_EQ(refusal(0), "[resample] a rate must be from 1 to 192000 Hz, got 0");
  EXPECT_EQ(refusal(192001),
            "[resample] a rate must be from 1 to 192000 Hz, got 192001");
  EXPECT_EQ(refusal(44101),
            "[resample] 44101 Hz to 16000 Hz must be a ratio of at most 1000 "
            "in lowest terms, is 44101 : 16000; convert the audio to 16000 Hz "
            "first");
}

}  // namespace
}  // namespace sluice::testing
