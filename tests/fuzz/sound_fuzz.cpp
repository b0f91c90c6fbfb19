// Decodes sounds as anyone may have made them, with a header and without.
// libsndfile itself is not compiled with coverage; its memory is watched.

#include <cmath>

#include "readers.h"
#include "sluice/audio/resample.h"
#include "sluice/audio/sound.h"

namespace {

void check(const sluice::Sound& sound, const sluice::SoundLimits& limits) {
  using namespace sluice;
  fuzz::expect_that(!sound.samples.empty() &&
                        sound.samples.size() <= limits.samples &&
                        sound.seconds() <= limits.seconds,
                    "a clip of a wrong length");
  fuzz::expect_that(sound.rate >= 1 && sound.rate <= kMostSoundRate,
                    "a rate that must not be");
  for (const float value : sound.samples) {
    fuzz::expect_that(std::abs(value) <= 1, "a value outside [-1, 1]");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace sluice;
  const auto bytes = std::as_bytes(std::span(data, size));
  // Little: some bytes of FLAC are minutes of silence.
  const SoundLimits limits = {60, 1 << 18};
  for (const char* name : {"fuzz.wav", "fuzz.raw"}) {
    try {
      check(decode_by_name(name, bytes, limits), limits);
    } catch (const std::runtime_error&) {
    }
  }
  return 0;
}
