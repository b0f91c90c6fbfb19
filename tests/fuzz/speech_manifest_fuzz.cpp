// Reads manifests of speech as anyone may have made them.

#include "readers.h"
#include "sluice/audio/speech_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  try {
    const auto lines = parse_speech_manifest("fuzz", fuzz::as_text(data, size));
    fuzz::expect_that(!lines.empty(), "no lines");
    for (const SpeechLine& line : lines) {
      fuzz::expect_that(!line.audio.empty() && !line.transcript.empty(),
                        "an empty path");
    }
    // Looks for the first file that is not there.
    read_speech_manifest(fuzz::file_of(std::as_bytes(std::span(data, size))),
                         "/nowhere");
  } catch (const std::runtime_error&) {
  }
  return 0;
}
