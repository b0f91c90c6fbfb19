#include "sluice/audio/an4.h"

#include <filesystem>

#include "sluice/audio/speech_manifest.h"
#include "sluice/audio/transcript.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/data/read_file.h"

namespace sluice {
namespace {

// Far above any utterance.
constexpr std::size_t kMostTranscript = 1 << 16;

Labels labels_of(const An4::Params& params, const std::string& folder) {
  if (!params.labels.empty()) return read_labels(params.labels);
  const auto beside = std::filesystem::path(folder) / "labels.json";
  if (std::filesystem::exists(beside)) return read_labels(beside.string());
  return {};
}

}  // namespace

ParamList An4::list(Params& p) {
  return {
      {"root", &p.root, "folder of the paths in the manifests; empty: theirs"},
      {"labels", &p.labels, "a labels.json; empty: that of the folder, or 29"},
      {.name = "unknown",
       .value = &p.unknown,
       .doc = "what a letter outside the labels comes to",
       .choices = {"stop", "drop"}},
      {"cache", &p.cache, "folder for prepared audio; none: memory"},
  };
}

An4::Contents An4::read(const Params& params, const DatasetPlace& place) {
  const bool training = place.split == Split::kTrain;
  const auto paths = find_files(
      "speech_corpus 'an4'", place.folder,
      {training ? "an4_train_manifest.csv" : "an4_val_manifest.csv"},
      "get AN4 from www.speech.cs.cmu.edu/databases/an4 and write a line "
      "'audio path,transcript path' for each utterance");
  Contents contents;
  contents.labels = labels_of(params, place.folder);
  const UnknownLetters unknown =
      params.unknown == "drop" ? UnknownLetters::kDrop : UnknownLetters::kStop;
  std::size_t dropped = 0;
  for (const SpeechLine& line : read_speech_manifest(paths[0], params.root)) {
    const std::string text = clean_an4_transcript(
        read_text_file("transcript", line.transcript, kMostTranscript));
    const auto ids =
        contents.labels.encode(line.transcript, text, unknown, &dropped);
    const std::string kept = tidy_text(contents.labels.decode(ids));
    ensure(!kept.empty(), "[transcript] '", line.transcript, "' (line ",
           line.line, " of '", paths[0],
           "') must have words, has none; leave the line out");
    contents.sources.push_back({line.audio, line.audio, kept});
  }
  if (dropped > 0) {
    contents.notes.push_back(concat("left ", dropped,
                                    " letters out of transcripts that are not "
                                    "among the labels"));
  }
  return contents;
}

An4::An4(const Params& params, const DatasetPlace& place)
    : An4(params, read(params, place)) {}

An4::An4(const Params& params, Contents contents)
    : SpeechCorpus(std::move(contents.sources), contents.labels, params.cache,
                   std::move(contents.notes)) {}

}  // namespace sluice
