#include "sluice/audio/sound.h"

#include "audio_support.h"

namespace sluice::testing {
namespace {

std::span<const std::byte> view(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

std::string refusal_of(const std::string& name, const Bytes& bytes,
                       const SoundLimits& limits = {}) {
  return message_of<std::runtime_error>(
      [&] { decode_by_name(name, view(bytes), limits); });
}

TEST(Sound, ReadsWav) {
  const Sound sound =
      decode_sound("a.wav", view(wav({0, 16384, -32768, 32767}, 8000)));
  EXPECT_EQ(sound.rate, 8000);
  EXPECT_EQ(sound.samples, (std::vector<float>{0, 0.5F, -1, 32767.0F / 32768}));
}

TEST(Sound, TakesTheMeanOfChannels) {
  const Sound sound = decode_sound(
      "a.wav", view(wav({16384, 0, -16384, 16384, 8192, 8192}, 16000, 2)));
  EXPECT_EQ(sound.samples, (std::vector<float>{0.25F, 0, 0.25F}));
}

TEST(Sound, ReadsHeaderlessAudioByName) {
  const Sound sound = decode_by_name("a.raw", view(raw({0, 1, -2, 32767})));
  EXPECT_EQ(sound.rate, 16000);
  EXPECT_EQ(sound.samples,
            (std::vector<float>{0, 0x1p-15F, -0x1p-14F, 32767.0F / 32768}));
}

// As CMU hands AN4 out.
TEST(Sound, ReadsSphere) {
  std::string file =
      "NIST_1A\n   1024\nchannel_count -i 1\nsample_rate -i 16000\n"
      "sample_n_bytes -i 2\nsample_byte_format -s2 01\n"
      "sample_sig_bits -i 16\nsample_coding -s3 pcm\nsample_count -i 3\n"
      "end_head\n";
  file.resize(1024, ' ');
  for (const std::uint8_t byte : raw({0, 16384, -16384})) {
    file += static_cast<char>(byte);
  }
  const Sound sound = decode_by_name("a.sph", std::as_bytes(std::span(file)));
  EXPECT_EQ(sound.rate, 16000);
  EXPECT_EQ(sound.samples, (std::vector<float>{0, 0.5F, -0.5F}));
}

TEST(Sound, RefusesClipsWithoutSamples) {
  EXPECT_EQ(refusal_of("a.wav", wav({}, 16000)),
            "[audio] 'a.wav' must hold audio, has no samples; record it again "
            "or leave it out");
  EXPECT_EQ(refusal_of("a.raw", {}),
            "[audio] 'a.raw' must hold audio, has no samples; record it again "
            "or leave it out");
}

TEST(Sound, RefusesAbsurdRates) {
  EXPECT_CONTAINS(refusal_of("a.wav", wav({1, 2}, 4'000'000)),
                  "[audio] 'a.wav' must have a rate from 1 to 192000 Hz, got "
                  "4000000; convert it to 16000 Hz");
  EXPECT_CONTAINS(refusal_of("a.wav", wav({1, 2}, 0)), "[audio] 'a.wav' must");
}

TEST(Sound, RefusesTooManyChannels) {
  EXPECT_EQ(refusal_of("a.wav", wav(std::vector<std::int16_t>(18), 16000, 9)),
            "[audio] 'a.wav' must have from 1 to 8 channels, got 9; convert it "
            "to one");
}

TEST(Sound, RefusesWhatIsNoAudio) {
  EXPECT_EQ(refusal_of("a.wav", {1, 2, 3, 4}),
            "[audio] 'a.wav' must be a WAV, FLAC, Ogg, AIFF, AU or SPHERE "
            "file, is none; headerless 16 kHz audio must be named .raw");
  EXPECT_CONTAINS(refusal_of("a.wav", {'R', 'I', 'F', 'F', 0, 0}),
                  "[audio] 'a.wav' must be audio that libsndfile reads, but: ");
  EXPECT_EQ(refusal_of("a.raw", {1, 2, 3}),
            "[audio] 'a.raw' must hold 16-bit samples, has 3 bytes; is it cut, "
            "or a file with a header?");
}

TEST(Sound, RefusesWhatLastsTooLong) {
  EXPECT_EQ(refusal_of("a.wav", wav(std::vector<std::int16_t>(300), 100),
                       {2.5, 1000}),
            "[audio] 'a.wav' must last at most 2.5 s and have at most 1000 "
            "samples, has more; cut it into utterances");
  EXPECT_EQ(refusal_of("a.raw", raw(std::vector<std::int16_t>(32000)),
                       {1.5, 1 << 20}),
            "[audio] 'a.raw' must last at most 1.5 s, lasts 2; cut it into "
            "utterances");
}

// Float files may hold anything.
TEST(Sound, RefusesValuesThatAreNotFinite) {
  Bytes file = wav({0, 0, 0x7fff, 0x7fff}, 16000);
  file[20] = 3;  // IEEE float
  file[32] = 4;
  file[34] = 32;
  EXPECT_EQ(refusal_of("a.wav", file),
            "[audio] 'a.wav' must hold finite values, sample 1 is not; convert "
            "it to 16-bit PCM");
}

}  // namespace
}  // namespace sluice::testing
