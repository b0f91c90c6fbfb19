#include "sluice/text/corpora.h"

#include <algorithm>
#include <filesystem>

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/text/prepare.h"
#include "sluice/text/text_files.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

constexpr double kMostLength = 1 << 20;
constexpr std::string_view kLengthDoc = "tokens of a sequence";

ThreeTexts three(const std::vector<std::string>& texts) {
  return {texts[0], texts[1], texts[2]};
}

std::string read_corpus(std::string_view owner, const std::string& path) {
  std::string text = read_text_file(owner, path, kMostBytes);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  ensure(!text.empty(), "[", owner, "] '", path,
         "' must hold text, is empty; fetch it once more");
  return text;
}

// That it is UTF-8 is checked where it is prepared.
void add_texts(std::string_view owner, const std::vector<std::string>& paths,
               std::vector<std::string>& texts) {
  for (const std::string& path : paths) {
    texts.push_back(read_corpus(owner, path));
  }
}

// The file that `text` means where none was named: the only one that ends in
// .txt and is none of a tokeniser's.
std::string only_text_in(std::string_view owner, const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto name = entry.path().filename();
    if (entry.path().extension() == ".txt" && name != "merges.txt" &&
        name != "vocab.txt") {
      found.push_back(entry.path().string());
    }
  }
  ensure(found.size() == 1, "[", owner, "] folder '", folder,
         "' must hold one file that ends in .txt, holds ", found.size(),
         "; name it, as in text:file=book.txt");
  return found[0];
}

// Where a part begins that should begin at `at`.
std::size_t cut_near(std::string_view text, std::size_t at) {
  if (at >= text.size()) return text.size();
  if (at > 0 && text[at - 1] == '\n') return at;
  const std::size_t line = text.find('\n', at);
  if (line != text.npos && line + 1 < text.size()) return line + 1;
  while (at < text.size() &&
         (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80) {
    ++at;
  }
  return at;
}

ThreeTexts cut_in_three(std::string_view text, double valid, double test) {
  const auto part = [&](double share) {
    return static_cast<std::size_t>(share * static_cast<double>(text.size()));
  };
  const std::size_t first = cut_near(text, text.size() - part(valid + test));
  const std::size_t second =
      std::max(first, cut_near(text, text.size() - part(test)));
  return {text.substr(0, first), text.substr(first, second - first),
          text.substr(second)};
}

}  // namespace

ParamList Ptb::list(Params& p) {
  return {{"length", &p.length, kLengthDoc, 1, kMostLength}};
}

Ptb::Ptb(const Params& params, const TextPlace& place)
    : TextCorpus(recipe(params, place)) {}

TextCorpus::Recipe Ptb::recipe(const Params& params, const TextPlace& place) {
  Recipe r;
  r.owner = "text_corpus 'ptb'";
  r.name = kName;
  r.folder = place.folder;
  r.length = params.length;
  for (const char* part : {"train", "valid", "test"}) {
    r.paths.push_back(
        text_file_in(r.owner, place.folder, {concat("ptb.", part, ".txt")},
                     "they are in simple-examples.tgz of Mikolov's "
                     "RNNLM toolkit, folder data"));
  }
  add_texts(r.owner, r.paths, r.texts);
  r.prepare = [](const std::vector<std::string>& texts) {
    return prepare_by_frequency(three(texts), false);
  };
  return r;
}

ParamList WikiText::list(Params& p) {
  return {{"tokens",
           &p.tokens,
           "what the text is cut into",
           0,
           0,
           {"word", "byte", "bpe"}},
          {"length", &p.length, kLengthDoc, 1, kMostLength}};
}

WikiText::WikiText(const Params& params, const TextPlace& place)
    : TextCorpus(recipe(params, place)) {}

TextCorpus::Recipe WikiText::recipe(const Params& params,
                                    const TextPlace& place) {
  Recipe r;
  r.owner = "text_corpus 'wikitext'";
  r.name = kName;
  r.folder = place.folder;
  r.length = params.length;
  for (const std::string part : {"train", "valid", "test"}) {
    r.paths.push_back(text_file_in(
        r.owner, place.folder,
        {"wiki." + part + ".tokens", "wiki." + part + ".raw", part + ".txt"},
        "wikitext-2-v1.zip and wikitext-103-v1.zip (or -raw-v1) "
        "hold them"));
  }
  add_texts(r.owner, r.paths, r.texts);
  r.tokenizer = tokenizer_for(params.tokens, place.folder);
  r.params = signature(r.tokenizer.get());
  r.prepare = [tokenizer =
                   r.tokenizer.get()](const std::vector<std::string>& texts) {
    return tokenizer == nullptr ? prepare_in_order(three(texts))
                                : prepare_with(*tokenizer, three(texts));
  };
  return r;
}

ParamList PlainText::list(Params& p) {
  return {{"file", &p.file, "its name; empty: the only .txt in the folder"},
          {"tokens",
           &p.tokens,
           "what the text is cut into",
           0,
           0,
           {"word", "byte", "bpe"}},
          {"most", &p.most, "words at most, rarer ones are <unk>; 0: all", 0,
           static_cast<double>(Vocabulary::kMostWords)},
          {"valid", &p.valid, "part of the text for validation", 0, 0.4},
          {"test", &p.test, "part of the text, its last, for tests", 0, 0.4},
          {"length", &p.length, kLengthDoc, 1, kMostLength}};
}

PlainText::PlainText(const Params& params, const TextPlace& place)
    : TextCorpus(recipe(params, place)) {}

TextCorpus::Recipe PlainText::recipe(const Params& params,
                                     const TextPlace& place) {
  Recipe r;
  r.owner = "text_corpus 'text'";
  r.name = kName;
  r.folder = place.folder;
  r.length = params.length;
  ensure(!place.folder.empty(), "[", r.owner,
         "] a folder must be given that holds a text file");
  r.paths.push_back(params.file.empty()
                        ? only_text_in(r.owner, place.folder)
                        : text_file_in(r.owner, place.folder, {params.file},
                                       "any text in UTF-8 will do"));
  add_texts(r.owner, r.paths, r.texts);
  r.tokenizer = tokenizer_for(params.tokens, place.folder);
  r.params = concat(signature(r.tokenizer.get()), " ", params.most, " ",
                    params.valid, " ", params.test);
  r.prepare = [params, tokenizer = r.tokenizer.get()](
                  const std::vector<std::string>& texts) {
    const ThreeTexts parts = cut_in_three(texts[0], params.valid, params.test);
    return tokenizer == nullptr
               ? prepare_by_frequency(parts, true,
                                      static_cast<std::size_t>(params.most))
               : prepare_with(*tokenizer, parts);
  };
  return r;
}

}  // namespace sluice
