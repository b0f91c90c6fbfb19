#pragma once

#include "sluice/audio/corpus.h"

namespace sluice {

// What Asterisk says on the telephone: the prompts of Debian's packages
// asterisk-core-sounds-en-wav (8 kHz, one speaker) with the texts that
// asterisk-core-sounds-en documents. Prompts whose text does not say what is
// heard are left out; see clean_prompt.
//
// About one text in ten is for testing: those whose hash, which never changes,
// lies in the lowest tenth. By text and not by file, as some are spoken twice.
class Prompts final : public SpeechCorpus {
 public:
  static constexpr std::string_view kName = "prompts";
  static constexpr std::string_view kSummary =
      "25 minutes of telephone prompts by one speaker (Debian's "
      "asterisk-core-sounds-en-wav)";
  struct Params {
    std::string cache;
  };
  static ParamList list(Params& p);

  Prompts(const Params& params, const DatasetPlace& place);

 private:
  struct Contents {
    std::vector<ClipSource> sources;
    std::vector<std::string> notes;
  };
  static Contents read(const DatasetPlace& place);
  Prompts(const Params& params, Contents contents);
};

// Which split a prompt with this (cleaned) text is in.
Split split_of_prompt(std::string_view text);

}  // namespace sluice
