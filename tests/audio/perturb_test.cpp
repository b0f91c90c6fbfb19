#include "sluice/audio/perturb.h"

#include "audio_support.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

// Times the values go from below to above 0, a second.
double crossings(const std::vector<float>& samples) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (samples[i - 1] < 0 && samples[i] >= 0) ++count;
  }
  return static_cast<double>(count) * 16000 /
         static_cast<double>(samples.size());
}

double loudness(const std::vector<float>& samples) {
  double squares = 0;
  for (const float value : samples) squares += double(value) * value;
  return std::sqrt(squares / static_cast<double>(samples.size()));
}

TEST(Perturb, ChangesTempoAndNotPitch) {
  for (const double frequency : {120.0, 440.0, 1700.0}) {
    const auto in = sine(frequency, 16000, 32000);
    for (const double tempo : {0.85, 0.93, 1.07, 1.15, 2.0}) {
      const auto out = change_tempo(in, tempo);
      EXPECT_EQ(out.size(), std::size_t(std::llround(32000 / tempo)));
      EXPECT_NEAR(crossings(out), frequency, 0.02 * frequency)
          << frequency << " Hz, tempo " << tempo;
      EXPECT_NEAR(loudness(out), loudness(in), 0.03 * loudness(in));
    }
  }
}

TEST(Perturb, KeepsWhatIsNotChanged) {
  const auto in = sine(300, 16000, 5000);
  EXPECT_EQ(change_tempo(in, 1), in);
  EXPECT_EQ(perturb(in, {}), in);
}

TEST(Perturb, ChangesLoudnessByDecibels) {
  const auto in = sine(300, 16000, 16000, 0.1);
  EXPECT_NEAR(loudness(perturb(in, {1, 6.0206})) / loudness(in), 2, 1e-3);
  EXPECT_NEAR(loudness(perturb(in, {1, -6.0206})) / loudness(in), 0.5, 1e-3);
  for (const float value : perturb(sine(300, 16000, 1600, 0.9), {1, 8})) {
    EXPECT_LE(std::abs(value), 1.0F);
  }
}

TEST(Perturb, TakesClipsOfAnyLength) {
  for (const std::size_t size : {0, 1, 479, 480, 959, 960, 961, 1200}) {
    for (const double tempo : {0.85, 1.15, 0.25, 4.0}) {
      const auto out = change_tempo(sine(200, 16000, size), tempo);
      const auto expected = std::llround(static_cast<double>(size) / tempo);
      EXPECT_EQ(out.size(), std::max<std::size_t>(1, std::size_t(expected)));
    }
  }
}

TEST(Perturb, DrawsByTheBitsAlone) {
  double tempo = 0;
  double gain = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Perturbation how = draw_perturbation(mix64(i));
    EXPECT_EQ(how, draw_perturbation(mix64(i)));
    EXPECT_GE(how.tempo, 0.85);
    EXPECT_LT(how.tempo, 1.15);
    EXPECT_GE(how.gain_db, -6);
    EXPECT_LT(how.gain_db, 8);
    tempo += how.tempo / 1000;
    gain += how.gain_db / 1000;
  }
  EXPECT_NEAR(tempo, 1, 0.01);
  EXPECT_NEAR(gain, 1, 0.4);
}

TEST(Perturb, RefusesAbsurdTempos) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { change_tempo({}, 0); }),
            "[perturb] tempo must be from 0.25 to 4, got 0");
}

}  // namespace
}  // namespace sluice::testing
