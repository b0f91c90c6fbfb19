#include "sluice/audio/sound.h"
#include "sluice/core/ensure.h"

namespace sluice {

bool reads_sound_files() { return false; }

Sound decode_sound(std::string_view name, std::span<const std::byte>,
                   const SoundLimits&) {
  throw std::runtime_error(concat(
      of_clip(name),
      "needs a build with libsndfile, got one without; install "
      "libsndfile1-dev, configure and build again, or convert it to .raw"));
}

}  // namespace sluice
