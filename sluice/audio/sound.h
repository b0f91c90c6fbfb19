#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// One channel of audio: values in [-1, 1], `rate` of them a second.
struct Sound {
  std::vector<float> samples;
  std::int64_t rate = 0;

  double seconds() const {
    return static_cast<double>(samples.size()) / static_cast<double>(rate);
  }
};

// What a clip may be at most. Anything above is taken for something else than
// an utterance.
struct SoundLimits {
  double seconds = 3600;
  std::size_t samples = std::size_t{1} << 27;  // 512 MiB of floats
};

inline constexpr std::int64_t kMostSoundRate = 192'000;
inline constexpr int kMostChannels = 8;
inline constexpr std::size_t kMostSoundBytes = std::size_t{1} << 30;

// Headerless audio is taken for this: 16 bits, little endian, one channel.
inline constexpr std::int64_t kRawRate = 16'000;

// Whether this build decodes files with headers (libsndfile).
bool reads_sound_files();

// The bytes of a WAV, FLAC, Ogg, AIFF, AU or NIST SPHERE file as one channel:
// the mean of all, if it has several. Values that are not finite (float files
// may have them) are errors, values outside [-1, 1] are clipped.
//
// Throws std::runtime_error, naming `name`, for what is none of these or
// damaged, has no samples, a rate outside [1, kMostSoundRate], more than
// kMostChannels channels, or more than `limits`; and, saying what to install,
// in a build without libsndfile.
Sound decode_sound(std::string_view name, std::span<const std::byte> bytes,
                   const SoundLimits& limits = {});

// The same of headerless audio, which any even number of bytes above 0 is.
Sound decode_raw_sound(std::string_view name, std::span<const std::byte> bytes,
                       const SoundLimits& limits = {});

// By the end of `name`: .raw (and .pcm) are headerless, all others are not.
Sound decode_by_name(std::string_view name, std::span<const std::byte> bytes,
                     const SoundLimits& limits = {});

// "[audio] 'name' ", with which every message about a clip begins.
std::string of_clip(std::string_view name);

}  // namespace sluice
