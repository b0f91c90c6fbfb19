#include "sluice/audio/speech_manifest.h"

#include <filesystem>

#include "sluice/audio/text_lines.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostPath = 4096;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// "a/b/c" as root/a/b/c, root/b/c or root/c, whichever is there first; empty
// if none is.
std::string find_below(const fs::path& root, const fs::path& path) {
  const fs::path relative = path.relative_path();
  for (auto first = relative.begin(); first != relative.end(); ++first) {
    fs::path candidate = root;
    for (auto part = first; part != relative.end(); ++part) candidate /= *part;
    if (is_there(candidate)) return candidate.string();
  }
  return {};
}

class Finder {
 public:
  Finder(const std::string& manifest, const std::string& root)
      : manifest_(manifest),
        root_(root.empty() ? fs::path(manifest).parent_path() : fs::path(root)),
        given_(!root.empty()) {}

  std::string find(const std::string& text, std::size_t line) const {
    const fs::path path(text);
    if (path.is_absolute() && is_there(path)) return text;
    if (!path.is_absolute() && is_there(root_ / path)) {
      return (root_ / path).string();
    }
    std::string found = given_ ? find_below(root_, path) : std::string();
    ensure(
        !found.empty(), "[manifest] '", manifest_, "' line ", line,
        " must name files that are there, '", text, "' is not",
        path.is_absolute() ? " (an absolute path)" : "",
        given_ ? concat(", nor below '", root_.string(), "'") : std::string(),
        "; rewrite the paths (sed -i 's,OLD/,NEW/,g'), or name the folder "
        "that holds them: root=FOLDER");
    return found;
  }

 private:
  std::string manifest_;
  fs::path root_;
  bool given_;
};

}  // namespace

std::vector<SpeechLine> parse_speech_manifest(std::string_view name,
                                              std::string_view text) {
  std::vector<SpeechLine> lines;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    if (line.empty()) return;
    const std::size_t comma = line.find(',');
    const bool two = comma != std::string_view::npos && comma > 0 &&
                     comma + 1 < line.size() &&
                     line.find(',', comma + 1) == std::string_view::npos &&
                     line.find('\0') == std::string_view::npos;
    ensure(two && line.size() <= 2 * kMostPath, "[manifest] '", name, "' line ",
           number, " must read 'audio path,transcript path', got '",
           line.substr(0, 100), "'");
    lines.push_back({std::string(line.substr(0, comma)),
                     std::string(line.substr(comma + 1)), number});
  });
  ensure(!lines.empty(), "[manifest] '", name,
         "' must name an utterance, is empty; expected is 'audio "
         "path,transcript path' per line");
  return lines;
}

std::vector<SpeechLine> read_speech_manifest(const std::string& path,
                                             const std::string& root) {
  auto lines = parse_speech_manifest(path, read_text_file("manifest", path));
  const Finder finder(path, root);
  for (SpeechLine& line : lines) {
    line.audio = finder.find(line.audio, line.line);
    line.transcript = finder.find(line.transcript, line.line);
  }
  return lines;
}

}  // namespace sluice
