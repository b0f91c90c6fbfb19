#include "sluice/text/kjv.h"

#include <cctype>
#include <cstdio>
#include <memory>

#include "sluice/core/ensure.h"
#include "sluice/text/prepare.h"
#include "sluice/text/text_files.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view kKjvOwner = "text_corpus 'kjv'";
// -f turns its line breaks off; -p keeps it from files of the current folder.
constexpr const char* kBible =
    "bible -p /usr/lib -f Gen1:1-Rev22:21 </dev/null 2>/dev/null";

struct PipeCloser {
  void operator()(std::FILE* file) const { pclose(file); }
};

std::string print_bible() {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const std::unique_ptr<std::FILE, PipeCloser> pipe(popen(kBible, "r"));
  std::string text;
  char chunk[1 << 16];
  while (pipe != nullptr && text.size() < kMost) {
    const std::size_t n = std::fread(chunk, 1, sizeof(chunk), pipe.get());
    if (n == 0) break;
    text.append(chunk, n);
  }
  ensure(text.starts_with("Ge1:1 "), "[", kKjvOwner,
         "] the program `bible` must print the text, printed ", text.size(),
         " bytes of something else; install it with apt-get install "
         "bible-kjv, or give a folder that holds kjv.txt, made elsewhere with "
         "bible -f Gen1:1-Rev22:21 > kjv.txt");
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "Ge1" of "Ge1:1 In the ..."; empty if the line does not begin so.
std::string_view chapter_of(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const std::size_t colon = line.find(':');
  if (blank == line.npos || colon == line.npos || colon + 1 >= blank) return {};
  for (std::size_t i = colon + 1; i < blank; ++i) {
    if (!is_digit(line[i])) return {};
  }
  if (colon < 2 || !is_digit(line[colon - 1])) return {};
  return line.substr(0, colon);
}

std::size_t part_of(std::string_view chapter) {
  switch (content_hash(chapter) % 20) {
    case 0:
      return 2;
    case 1:
      return 1;
    default:
      return 0;
  }
}

bool is_word_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalpha(byte) != 0 || c == '\'';
}

void append_spaced(std::string_view verse, std::string& to) {
  for (std::size_t i = 0; i < verse.size();) {
    std::size_t end = i + 1;
    if (is_word_letter(verse[i])) {
      while (end < verse.size() && is_word_letter(verse[end])) ++end;
    }
    if (verse[i] != ' ') {
      to.append(verse.substr(i, end - i)) += ' ';
    }
    i = end;
  }
}

}  // namespace

std::string read_kjv(const std::string& folder) {
  const std::string path =
      folder.empty() ? "" : text_file_if_any(folder, {"kjv.txt"});
  return path.empty() ? print_bible() : read_utf8_file(kKjvOwner, path);
}

std::array<std::string, 3> split_verses(std::string_view text, bool spaced) {
  std::array<std::string, 3> parts;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    const std::string_view chapter = chapter_of(line);
    ensure(!chapter.empty(), "[", kKjvOwner, "] line ", number,
           " must be a verse with its place before it, as in 'Ge1:1 In the "
           "beginning', is not; bible -f Gen1:1-Rev22:21 > kjv.txt makes them");
    const std::string_view verse = line.substr(line.find(' ') + 1);
    std::string& part = parts[part_of(chapter)];
    if (spaced) {
      append_spaced(verse, part);
    } else {
      part.append(verse);
    }
    part += '\n';
  }
  return parts;
}

ParamList Kjv::list(Params& p) {
  return {{"tokens",
           &p.tokens,
           "what the text is cut into",
           0,
           0,
           {"word", "byte", "bpe"}},
          {"length", &p.length, "tokens of a sequence", 1, 1 << 20}};
}

Kjv::Kjv(const Params& params, const TextPlace& place)
    : TextCorpus(recipe(params, place)) {}

TextCorpus::Recipe Kjv::recipe(const Params& params, const TextPlace& place) {
  Recipe r;
  r.owner = kKjvOwner;
  r.name = kName;
  r.folder = place.folder;
  r.length = params.length;
  r.paths.push_back("kjv.txt");
  r.texts.push_back(read_kjv(place.folder));
  r.tokenizer = tokenizer_for(params.tokens, place.folder);
  r.params = signature(r.tokenizer.get());
  r.prepare = [tokenizer =
                   r.tokenizer.get()](const std::vector<std::string>& texts) {
    const auto parts = split_verses(texts[0], tokenizer == nullptr);
    const ThreeTexts views = {parts[0], parts[1], parts[2]};
    return tokenizer == nullptr ? prepare_by_frequency(views, true)
                                : prepare_with(*tokenizer, views);
  };
  return r;
}

}  // namespace sluice
