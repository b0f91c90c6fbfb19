#include "sluice/audio/prompts.h"

#include <algorithm>
#include <filesystem>

#include "sluice/audio/transcript.h"
#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/data/read_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPromptsOwner = "speech_corpus 'prompts'";
constexpr std::string_view kSounds =
    "/usr/share/asterisk/sounds/en_US_f_Allison";
constexpr std::string_view kDocs = "/usr/share/doc/asterisk-core-sounds-en";
constexpr std::string_view kListName = "core-sounds-en.txt";
constexpr std::size_t kMostList = std::size_t{16} << 20;

std::string find_sounds(const std::string& given) {
  const std::string folder = given.empty() ? std::string(kSounds) : given;
  std::error_code ignored;
  ensure(fs::is_directory(folder, ignored), "[", kPromptsOwner, "] '", folder,
         "' must be a folder of prompts; install them: apt-get install "
         "asterisk-core-sounds-en-wav asterisk-core-sounds-en");
  return folder;
}

// Containers often leave documentation out, and the texts with it.
std::string find_list(const std::string& folder) {
  for (const fs::path& place : {fs::path(folder), fs::path(kDocs)}) {
    for (const char* end : {"", ".gz"}) {
      const fs::path path = place / (std::string(kListName) + end);
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
  }
  ensure(false, "[", kPromptsOwner, "] ", kListName, " (or .gz) must be in '",
         folder, "' or '", kDocs,
         "', is in neither: was documentation left out (path-exclude in "
         "/etc/dpkg/dpkg.cfg.d)? tools/setup fetches it; by hand: apt-get "
         "download asterisk-core-sounds-en && dpkg-deb --fsys-tarfile "
         "asterisk-core-sounds-en_*.deb | tar -x -C / .",
         kDocs, "/", kListName, ".gz");
  return {};
}

std::vector<PromptLine> read_list(const std::string& folder) {
  const std::string path = find_list(folder);
  const auto bytes = read_file("prompts", path, kMostList);
  auto lines = parse_prompt_list(
      path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // By the order of files the split must not change, nor the samples.
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return lines;
}

}  // namespace

Split split_of_prompt(std::string_view text) {
  const std::uint64_t hash =
      content_hash(std::as_bytes(std::span(text)), /*before=*/0);
  return bounded(hash, 10) == 0 ? Split::kTest : Split::kTrain;
}

ParamList Prompts::list(Params& p) {
  return {{"cache", &p.cache, "folder for prepared audio; none: memory"}};
}

Prompts::Contents Prompts::read(const DatasetPlace& place) {
  const std::string folder = find_sounds(place.folder);
  const auto lines = read_list(folder);
  Contents contents;
  std::size_t unclear = 0;
  std::size_t missing = 0;
  for (const PromptLine& line : lines) {
    const PromptText prompt = clean_prompt(line.text);
    const fs::path path = fs::path(folder) / (line.name + ".wav");
    std::error_code ignored;
    if (!prompt.problem.empty()) {
      ++unclear;
    } else if (!fs::exists(path, ignored)) {
      ++missing;
    } else if (split_of_prompt(prompt.text) == place.split) {
      contents.sources.push_back({line.name, path.string(), prompt.text});
    }
  }
  const auto note = [&](std::size_t count, std::string_view why) {
    if (count == 0) return;
    contents.notes.push_back(
        concat("left out ", count, " of ", lines.size(), " prompts: ", why));
  };
  note(unclear, "their texts have tones, symbols or numbers");
  note(missing, "they have a text and no sound");
  ensure(!contents.sources.empty(), "[", kPromptsOwner, "] '", folder,
         "' must hold prompts of the list, holds none; install "
         "asterisk-core-sounds-en-wav");
  return contents;
}

Prompts::Prompts(const Params& params, const DatasetPlace& place)
    : Prompts(params, read(place)) {}

Prompts::Prompts(const Params& params, Contents contents)
    : SpeechCorpus(std::move(contents.sources), Labels(), params.cache,
                   std::move(contents.notes)) {}

}  // namespace sluice
