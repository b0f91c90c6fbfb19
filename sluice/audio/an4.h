#pragma once

#include "sluice/audio/corpus.h"

namespace sluice {

// AN4 as DeepSpeech's scripts leave it, or any corpus laid out alike: the
// folder holds an4_train_manifest.csv and an4_val_manifest.csv (see
// speech_manifest.h), transcripts are plain or AN4's own ("<s> ... </s>
// (file)"), audio is WAV, SPHERE, FLAC or headerless (.raw).
//
// The labels are those of labels=FILE, of a labels.json in the folder, or the
// usual 29.
class An4 final : public SpeechCorpus {
 public:
  static constexpr std::string_view kName = "an4";
  static constexpr std::string_view kSummary =
      "AN4 (CMU, about 50 minutes of spelled names, addresses and numbers), "
      "by its manifests";
  struct Params {
    std::string root;
    std::string labels;
    std::string unknown = "stop";
    std::string cache;
  };
  static ParamList list(Params& p);

  An4(const Params& params, const DatasetPlace& place);

 private:
  struct Contents {
    std::vector<ClipSource> sources;
    Labels labels;
    std::vector<std::string> notes;
  };
  static Contents read(const Params& params, const DatasetPlace& place);
  An4(const Params& params, Contents contents);
};

}  // namespace sluice
