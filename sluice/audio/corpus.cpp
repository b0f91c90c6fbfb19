#include "sluice/audio/corpus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "sluice/audio/an4.h"
#include "sluice/audio/prompts.h"
#include "sluice/audio/resample.h"
#include "sluice/audio/score.h"
#include "sluice/audio/sound.h"
#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/core/input_file.h"
#include "sluice/core/user_cache.h"

namespace sluice {
namespace {

// Of the way audio is prepared: another one must not find the old files.
constexpr std::uint64_t kPreparation = 1;

constexpr std::array kCorpora = {
    registry_entry<An4, SpeechCorpus, const DatasetPlace&>(),
    registry_entry<Prompts, SpeechCorpus, const DatasetPlace&>(),
};

std::string bytes_of(const ClipSource& source) {
  return read_text_file("audio", source.path, kMostSoundBytes);
}

std::uint64_t hash_of(std::string_view text, std::uint64_t before) {
  return content_hash(std::as_bytes(std::span(text)), before);
}

// Of all that decides about the samples. Whether a file has a header, only its
// name tells.
std::uint64_t key_of(std::span<const ClipSource> sources) {
  std::uint64_t key = mix64(kPreparation, sources.size());
  for (const ClipSource& source : sources) {
    key = hash_of(bytes_of(source), key);
    const std::size_t dot =
        std::min(source.path.rfind('.'), source.path.size());
    key = hash_of(std::string_view(source.path).substr(dot), key);
  }
  return key;
}

// Clips at kSpeechRate; the tables of a rate are made once.
class Preparer {
 public:
  std::vector<std::int16_t> prepare(const ClipSource& source) {
    const std::string bytes = bytes_of(source);
    const Sound sound =
        decode_by_name(source.path, std::as_bytes(std::span(bytes)));
    const auto samples = at_speech_rate(source, sound);
    std::vector<std::int16_t> clip(samples.size());
    for (std::size_t i = 0; i < clip.size(); ++i) {
      const float value = std::round(samples[i] * 32768);
      clip[i] =
          static_cast<std::int16_t>(std::clamp(value, -32768.0F, 32767.0F));
    }
    return clip;
  }

 private:
  std::vector<float> at_speech_rate(const ClipSource& source,
                                    const Sound& sound) try {
    auto found = changes_.find(sound.rate);
    if (found == changes_.end()) {
      found = changes_.emplace(sound.rate, RateChange(sound.rate, kSpeechRate))
                  .first;
    }
    return found->second.apply(sound.samples);
  } catch (const std::invalid_argument& e) {
    throw std::runtime_error(concat(of_clip(source.path), e.what()));
  }

  std::map<std::int64_t, RateChange> changes_;
};

std::string hex(std::uint64_t key) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(key));
  return text;
}

}  // namespace

SpeechCorpus::SpeechCorpus(std::vector<ClipSource> sources,
                           const Labels& labels, const std::string& cache,
                           std::vector<std::string> notes)
    : sources_(std::move(sources)), labels_(labels), notes_(std::move(notes)) {
  ensure(!sources_.empty(), "[audio] a corpus must have a clip, has none");
  const std::uint64_t key = key_of(sources_);
  prepare(cache, key);
  fingerprint_ = hash_of(labels_.letters(), key);
  for (const ClipSource& source : sources_) {
    fingerprint_ = hash_of(source.transcript, fingerprint_);
  }
}

void SpeechCorpus::prepare(const std::string& cache, std::uint64_t key) {
  const std::string folder = cache.empty() ? user_cache() : cache;
  const bool on_disk = !folder.empty() && cache != "none";
  const std::string path = folder + "/speech-" + hex(key) + ".clips";
  if (on_disk && std::filesystem::exists(path)) {
    try {
      store_ = open_clips(path, key);
      return;
    } catch (const std::runtime_error& e) {
      notes_.push_back(concat("prepared audio is made again: ", e.what()));
    }
  }
  Preparer preparer;
  Clips clips;
  for (const ClipSource& source : sources_) {
    clips.push_back(preparer.prepare(source));
  }
  if (on_disk) {
    try {
      std::filesystem::create_directories(folder);
      write_clips(path, key, clips);
      store_ = open_clips(path, key);
      return;
    } catch (const std::exception& e) {
      notes_.push_back(concat(
          "prepared audio stays in memory, for this run only: ", e.what(),
          "; name a folder that can be written: cache=FOLDER"));
    }
  }
  store_ = keep_in_memory(std::move(clips));
}

std::vector<std::int32_t> SpeechCorpus::targets(std::size_t clip) const {
  return labels_.encode(name(clip), transcript(clip));
}

double SpeechCorpus::seconds(std::size_t clip) const {
  return static_cast<double>(length(clip)) / kSpeechRate;
}

double SpeechCorpus::total_seconds() const {
  double sum = 0;
  for (std::size_t i = 0; i < size(); ++i) sum += seconds(i);
  return sum;
}

void SpeechCorpus::samples(std::size_t clip, std::vector<float>& out) const {
  thread_local std::vector<std::int16_t> stored;
  store_->read(clip, stored);
  out.resize(stored.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(stored[i]) * 0x1p-15F;
  }
}

std::vector<std::size_t> ctc_misfits(
    const SpeechCorpus& corpus,
    const std::function<std::size_t(std::size_t)>& frames, double fastest) {
  require(fastest >= 1 && fastest <= 4,
          "[ctc] clips must be shortened from 1 to 4 times, got ", fastest);
  std::vector<std::size_t> misfits;
  for (std::size_t i = 0; i < corpus.size(); ++i) {
    const auto samples = static_cast<std::size_t>(
        static_cast<double>(corpus.length(i)) / fastest);
    if (frames(samples) < least_ctc_frames(corpus.targets(i))) {
      misfits.push_back(i);
    }
  }
  return misfits;
}

void require_ctc_fits(const SpeechCorpus& corpus,
                      const std::function<std::size_t(std::size_t)>& frames,
                      double fastest) {
  const auto misfits = ctc_misfits(corpus, frames, fastest);
  if (misfits.empty()) return;
  const std::size_t i = misfits[0];
  const auto samples =
      static_cast<std::size_t>(static_cast<double>(corpus.length(i)) / fastest);
  throw std::runtime_error(concat(
      ctc_misfit_message(corpus.name(i), corpus.targets(i), frames(samples)),
      " (", misfits.size(), " of ", corpus.size(), " clips)"));
}

std::span<const SpeechCorpusEntry> speech_corpora() { return kCorpora; }

std::unique_ptr<SpeechCorpus> make_speech_corpus(std::string_view text,
                                                 const DatasetPlace& place) {
  return make_from(speech_corpora(), SpeechCorpus::kKind, text, place);
}

}  // namespace sluice
