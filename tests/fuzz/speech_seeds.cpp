// speech_seeds FOLDER: writes FOLDER/NAME/* as seeds of the fuzzers of speech.

#include <sndfile.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

bool write(const fs::path& folder, const char* name, int number,
           const std::string& seed) {
  fs::create_directories(folder / name);
  std::ofstream out(folder / name / std::to_string(number), std::ios::binary);
  out << seed;
  return out.flush().good();
}

bool write_sound(const fs::path& folder, int number, int format, int channels) {
  fs::create_directories(folder);
  SF_INFO info = {};
  info.samplerate = 8000;
  info.channels = channels;
  info.format = format;
  const std::string path = (folder / std::to_string(number)).string();
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  if (file == nullptr) return false;
  std::vector<short> samples(600);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<short>(static_cast<int>(i * i * 7 % 2000) - 1000);
  }
  sf_write_short(file, samples.data(), static_cast<sf_count_t>(samples.size()));
  return sf_close(file) == 0;
}

bool write_sounds(const fs::path& folder) {
  bool ok = true;
  int number = 0;
  for (const int format :
       {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_FLOAT,
        SF_FORMAT_WAV | SF_FORMAT_ULAW, SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM,
        SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
        SF_FORMAT_AIFF | SF_FORMAT_PCM_16, SF_FORMAT_AU | SF_FORMAT_PCM_16,
        SF_FORMAT_NIST | SF_FORMAT_PCM_16, SF_FORMAT_RF64 | SF_FORMAT_PCM_16}) {
    for (const int channels : {1, 2}) {
      ok = write_sound(folder, number++, format, channels) && ok;
    }
  }
  return ok;
}

// Two clips of three and no samples; the front is repaired by the fuzzer.
std::string clips() {
  std::string file = "1SLUICEAU";
  file.append(16, '\0').append("\2").append(7, '\0');
  for (const char samples : {'\3', '\0'}) {
    file.append(1, samples).append(15, '\0');
  }
  return file.append(4, '\0').append(6, '\1');
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: speech_seeds FOLDER\n", stderr);
    return 2;
  }
  const fs::path folder(argv[1]);
  bool ok = write_sounds(folder / "sound");
  ok = write(folder, "labels", 0, R"(["_", "'", "A", "B", " "])") && ok;
  ok = write(folder, "speech_manifest", 0, "a.wav,a.txt\n/b/c.raw,d.txt\n") &&
       ok;
  ok = write(folder, "prompts", 0,
             "; Prompts\n\nhello: Hello, you.\ndigits/1: press 1 now!\n"
             "a-m: A.M.\nbeep: [tone]\nnet: 28.8 www.a.org\n") &&
       ok;
  ok = write(folder, "prompts", 1, "<s> ONE TWO </s> (an4-b)\n") && ok;
  ok = write(folder, "clips", 0, clips()) && ok;
  return ok ? 0 : 1;
}
