#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/audio/clip_store.h"
#include "sluice/audio/labels.h"
#include "sluice/core/registry.h"
#include "sluice/data/dataset.h"

namespace sluice {

// A clip before it is prepared.
struct ClipSource {
  std::string name;  // for messages
  std::string path;
  std::string transcript;  // in letters of the labels
};

// Utterances and what is said in them.
//
// Audio is decoded, brought to one channel at kSpeechRate and kept as 16-bit
// samples in a file of user_cache() whose name is a hash of the contents of
// all clips; the next time it is only opened. cache=FOLDER puts it elsewhere,
// cache=none keeps it in memory, as happens, with a note, where no file can be
// written.
//
// Thread-safe once made.
class SpeechCorpus {
 public:
  static constexpr std::string_view kKind = "speech_corpus";

  virtual ~SpeechCorpus() = default;
  SpeechCorpus(const SpeechCorpus&) = delete;
  SpeechCorpus& operator=(const SpeechCorpus&) = delete;

  std::size_t size() const { return sources_.size(); }
  const std::string& name(std::size_t clip) const {
    return sources_.at(clip).name;
  }
  const std::string& transcript(std::size_t clip) const {
    return sources_.at(clip).transcript;
  }
  const Labels& labels() const { return labels_; }
  // The transcript as labels.
  std::vector<std::int32_t> targets(std::size_t clip) const;

  // Samples at kSpeechRate, and how long they last.
  std::size_t length(std::size_t clip) const { return store_->samples(clip); }
  double seconds(std::size_t clip) const;
  double total_seconds() const;

  // All samples of a clip, in [-1, 1). Throws std::runtime_error if what was
  // prepared has been damaged since.
  void samples(std::size_t clip, std::vector<float>& out) const;

  // A hash of all audio and transcripts: other data most likely have another.
  std::uint64_t fingerprint() const { return fingerprint_; }

  // What was left out or done otherwise than asked for, in sentences.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  // Throws std::runtime_error, naming the clip, for audio that cannot be used.
  SpeechCorpus(std::vector<ClipSource> sources, const Labels& labels,
               const std::string& cache, std::vector<std::string> notes);

 private:
  void prepare(const std::string& cache, std::uint64_t key);

  std::vector<ClipSource> sources_;
  Labels labels_;
  std::vector<std::string> notes_;
  std::unique_ptr<ClipStore> store_;
  std::uint64_t fingerprint_ = 0;
};

// The clips whose transcript is longer than CTC can fit: with `frames(samples)`
// outputs of a model for a clip that tempo has shortened `fastest`-fold.
std::vector<std::size_t> ctc_misfits(
    const SpeechCorpus& corpus,
    const std::function<std::size_t(std::size_t)>& frames, double fastest = 1);

// Throws std::runtime_error, naming the first of them and saying what to do, if
// there are any: their loss would be infinite.
void require_ctc_fits(const SpeechCorpus& corpus,
                      const std::function<std::size_t(std::size_t)>& frames,
                      double fastest = 1);

using SpeechCorpusEntry = RegistryEntry<SpeechCorpus, const DatasetPlace&>;

// Every corpus there is.
std::span<const SpeechCorpusEntry> speech_corpora();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. Throws
// std::runtime_error, saying which files it wants and where to get them, if
// they are not there or not what they should be.
std::unique_ptr<SpeechCorpus> make_speech_corpus(
    std::string_view text, const DatasetPlace& place = {});

}  // namespace sluice
