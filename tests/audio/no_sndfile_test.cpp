#include "audio_support.h"
#include "sluice/audio/sound.h"

namespace sluice::testing {
namespace {

// Linked with the part that takes the place of libsndfile.
TEST(WithoutSndfile, SaysWhatToInstall) {
  const Bytes file = wav({1, 2}, 16000);
  EXPECT_FALSE(reads_sound_files());
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              decode_by_name("a.wav", std::as_bytes(std::span(file)));
            }),
            "[audio] 'a.wav' needs a build with libsndfile, got one without; "
            "install libsndfile1-dev, configure and build again, or convert it "
            "to .raw");
}

TEST(WithoutSndfile, ReadsHeaderlessAudio) {
  const Bytes file = raw({16384});
  EXPECT_EQ(decode_by_name("a.raw", std::as_bytes(std::span(file))).samples,
            std::vector<float>{0.5F});
}

}  // namespace
}  // namespace sluice::testing
