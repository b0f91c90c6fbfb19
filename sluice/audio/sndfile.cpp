#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "sluice/audio/sound.h"
#include "sluice/core/ensure.h"

namespace sluice {
namespace {

// A file in memory, as libsndfile reads one.
struct MemoryFile {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

MemoryFile& file_in(void* user) { return *static_cast<MemoryFile*>(user); }

sf_count_t size_of_file(void* user) { return file_in(user).size(); }
sf_count_t place_in_file(void* user) { return file_in(user).at; }

sf_count_t seek_in_file(sf_count_t offset, int whence, void* user) {
  MemoryFile& file = file_in(user);
  const sf_count_t base = whence == SEEK_CUR   ? file.at
                          : whence == SEEK_END ? file.size()
                                               : 0;
  sf_count_t to = 0;
  if (__builtin_add_overflow(base, offset, &to)) return -1;
  if (to < 0 || to > file.size()) return -1;
  return file.at = to;
}

sf_count_t read_from_file(void* to, sf_count_t count, void* user) {
  MemoryFile& file = file_in(user);
  const sf_count_t n = std::clamp<sf_count_t>(count, 0, file.size() - file.at);
  // Nothing to read may come with nowhere to put it.
  if (n == 0) return 0;
  std::memcpy(to, file.bytes.data() + file.at, static_cast<std::size_t>(n));
  file.at += n;
  return n;
}

sf_count_t refuse_write(const void*, sf_count_t, void*) { return 0; }

struct Closer {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

// libsndfile guesses at two dozen formats more, some of them from the eighties;
// speech does not come in them.
bool has_known_magic(std::span<const std::byte> bytes) {
  constexpr std::array<std::string_view, 7> kMagics = {
      "RIFF", "RF64", "fLaC", "OggS", "FORM", ".snd", "NIST"};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  return std::any_of(kMagics.begin(), kMagics.end(),
                     [&](auto magic) { return text.starts_with(magic); });
}

void check_info(std::string_view name, const SF_INFO& info) {
  ensure(info.samplerate >= 1 && info.samplerate <= kMostSoundRate,
         of_clip(name), "must have a rate from 1 to ", kMostSoundRate,
         " Hz, got ", info.samplerate, "; convert it to 16000 Hz");
  ensure(info.channels >= 1 && info.channels <= kMostChannels, of_clip(name),
         "must have from 1 to ", kMostChannels, " channels, got ",
         info.channels, "; convert it to one");
}

// Adds the mean of the channels of `frames`.
void append_mean(std::string_view name, std::span<const float> frames,
                 std::size_t channels, std::vector<float>& out) {
  const float scale = 1.0F / static_cast<float>(channels);
  for (std::size_t i = 0; i < frames.size(); i += channels) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += frames[i + c];
    ensure(std::isfinite(sum), of_clip(name),
           "must hold finite values, sample ", out.size(),
           " is not; convert it to 16-bit PCM");
    out.push_back(std::clamp(sum * scale, -1.0F, 1.0F));
  }
}

}  // namespace

bool reads_sound_files() { return true; }

Sound decode_sound(std::string_view name, std::span<const std::byte> bytes,
                   const SoundLimits& limits) {
  ensure(has_known_magic(bytes), of_clip(name),
         "must be a WAV, FLAC, Ogg, AIFF, AU or SPHERE file, is none; "
         "headerless 16 kHz audio must be named .raw");
  MemoryFile memory{bytes};
  SF_VIRTUAL_IO io = {size_of_file, seek_in_file, read_from_file, refuse_write,
                      place_in_file};
  SF_INFO info = {};
  const std::unique_ptr<SNDFILE, Closer> file(
      sf_open_virtual(&io, SFM_READ, &info, &memory));
  ensure(file != nullptr, of_clip(name),
         "must be audio that libsndfile reads, but: ", sf_strerror(nullptr));
  check_info(name, info);
  const auto channels = static_cast<std::size_t>(info.channels);
  Sound sound;
  sound.rate = info.samplerate;
  // What the header says of the length is not believed: it grows as it comes.
  std::vector<float> chunk(4096 * channels);
  while (const auto n = sf_readf_float(file.get(), chunk.data(), 4096)) {
    ensure(n > 0, of_clip(name),
           "must be whole, but: ", sf_strerror(file.get()));
    const auto values = static_cast<std::size_t>(n) * channels;
    append_mean(name, std::span(chunk).first(values), channels, sound.samples);
    ensure(sound.samples.size() <= limits.samples &&
               sound.seconds() <= limits.seconds,
           of_clip(name), "must last at most ", limits.seconds,
           " s and have at most ", limits.samples,
           " samples, has more; cut it into utterances");
  }
  ensure(sf_error(file.get()) == SF_ERR_NO_ERROR, of_clip(name),
         "must be whole, but: ", sf_strerror(file.get()));
  ensure(!sound.samples.empty(), of_clip(name),
         "must hold audio, has no samples; record it again or leave it out");
  return sound;
}

}  // namespace sluice
