#include "sluice/audio/sound.h"

#include "sluice/core/ensure.h"

namespace sluice {

std::string of_clip(std::string_view name) {
  return concat("[audio] '", name, "' ");
}

Sound decode_raw_sound(std::string_view name, std::span<const std::byte> bytes,
                       const SoundLimits& limits) {
  ensure(!bytes.empty(), of_clip(name),
         "must hold audio, has no samples; record it again or leave it out");
  ensure(bytes.size() % 2 == 0, of_clip(name), "must hold 16-bit samples, has ",
         bytes.size(), " bytes; is it cut, or a file with a header?");
  const std::size_t count = bytes.size() / 2;
  Sound sound;
  sound.rate = kRawRate;
  const double seconds = static_cast<double>(count) / kRawRate;
  ensure(count <= limits.samples && seconds <= limits.seconds, of_clip(name),
         "must last at most ", limits.seconds, " s, lasts ", seconds,
         "; cut it into utterances");
  sound.samples.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto low = static_cast<std::uint16_t>(bytes[2 * i]);
    const auto high = static_cast<std::uint16_t>(bytes[2 * i + 1]);
    const auto value = static_cast<std::int16_t>(low | high << 8);
    sound.samples[i] = static_cast<float>(value) * 0x1p-15F;
  }
  return sound;
}

Sound decode_by_name(std::string_view name, std::span<const std::byte> bytes,
                     const SoundLimits& limits) {
  if (name.ends_with(".raw") || name.ends_with(".pcm")) {
    return decode_raw_sound(name, bytes, limits);
  }
  return decode_sound(name, bytes, limits);
}

}  // namespace sluice
