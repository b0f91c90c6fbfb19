#include <filesystem>

#include "audio_support.h"
#include "sluice/audio/speech_manifest.h"

namespace sluice::testing {
namespace {

TEST(SpeechManifest, ReadsPairsOfPaths) {
  const auto lines = parse_speech_manifest("m", "a.wav,a.txt\r\n\nb.wav,b.txt");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].audio, "a.wav");
  EXPECT_EQ(lines[0].transcript, "a.txt");
  EXPECT_EQ(lines[1].line, 3U);
}

TEST(SpeechManifest, NamesTheLineThatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return message_of<std::runtime_error>(
        [&] { parse_speech_manifest("m.csv", text); });
  };
  EXPECT_EQ(refusal("a.wav,a.txt\nb.wav\n"),
            "[manifest] 'm.csv' line 2 must read 'audio path,transcript path', "
            "got 'b.wav'");
  EXPECT_CONTAINS(refusal("a,b,c"), "line 1 must read");
  EXPECT_CONTAINS(refusal(",b"), "line 1 must read");
  EXPECT_CONTAINS(refusal("a,"), "line 1 must read");
  EXPECT_EQ(refusal("\n"),
            "[manifest] 'm.csv' must name an utterance, is empty; expected is "
            "'audio path,transcript path' per line");
}

class SpeechManifestFiles : public ::testing::Test {
 protected:
  SpeechManifestFiles() {
    std::filesystem::create_directories(folder_ / "an4/wav");
    write_text_to(folder_ / "an4/wav/a.wav", "x");
    write_text_to(folder_ / "an4/wav/a.txt", "x");
  }
  void write(const std::string& text) { write_text_to(path_, text); }

  TempFolder folder_;
  std::string path_ = folder_ / "an4/m.csv";
};

TEST_F(SpeechManifestFiles, AreRelativeToTheManifest) {
  write("wav/a.wav,wav/a.txt\n");
  EXPECT_EQ(read_speech_manifest(path_)[0].audio, folder_ / "an4/wav/a.wav");
}

TEST_F(SpeechManifestFiles, AreFoundBelowARoot) {
  write("/home/someone/data/wav/a.wav,/home/someone/data/wav/a.txt\n");
  const auto lines = read_speech_manifest(path_, folder_ / "an4");
  EXPECT_EQ(lines[0].audio, folder_ / "an4/wav/a.wav");
  EXPECT_EQ(lines[0].transcript, folder_ / "an4/wav/a.txt");
}

TEST_F(SpeechManifestFiles, ThatAreMissingAreNamed) {
  write("wav/a.wav,wav/a.txt\n/home/someone/b.wav,/home/someone/b.txt\n");
  EXPECT_EQ(
      message_of<std::runtime_error>([&] { read_speech_manifest(path_); }),
      "[manifest] '" + path_ +
          "' line 2 must name files that are there, '/home/someone/b.wav' is "
          "not (an absolute path); rewrite the paths (sed -i "
          "'s,OLD/,NEW/,g'), or name the folder that holds them: root=FOLDER");
  EXPECT_CONTAINS(message_of<std::runtime_error>(
                      [&] { read_speech_manifest(path_, folder_ / "an4"); }),
                  ", nor below '" + (folder_ / "an4") + "'; rewrite");
}

}  // namespace
}  // namespace sluice::testing
