#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// A line of a manifest: an utterance and the file with its transcript.
struct SpeechLine {
  std::string audio;
  std::string transcript;
  std::size_t line = 0;  // from 1
};

// "audio path,transcript path" per line; empty lines are nothing. Paths are as
// they are written. Throws std::runtime_error, beginning with "[manifest]
// 'name' line N", for lines that are not, and if there is none.
std::vector<SpeechLine> parse_speech_manifest(std::string_view name,
                                              std::string_view text);

// The same of a file, with paths that can be opened: relative ones are relative
// to `root`, or to the manifest's folder if it is empty. An absolute path that
// is not there is looked for below `root`, without one folder of its beginning
// after the other: so manifests with paths of somebody else's machine work.
//
// Throws std::runtime_error, with the line, for files that are not there; the
// message says how to give `root`.
std::vector<SpeechLine> read_speech_manifest(const std::string& path,
                                             const std::string& root = {});

}  // namespace sluice
