#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/core/registry.h"
#include "sluice/data/input.h"
#include "sluice/text/token_cache.h"
#include "sluice/text/tokenizer.h"

namespace sluice {

enum class TextSplit { kTrain, kValid, kTest };
std::string_view name_of(TextSplit split);

// Where a corpus has its files; an empty folder means the usual place, if it
// has one.
struct TextPlace {
  std::string folder;
};

// A text as tokens, in three parts.
//
// Prepared once and kept beside the files (see token_cache.h); the key of what
// is kept is a hash of the files' content and of the parameters, so changed
// files are prepared again. Thread-safe once made, but for tokenizer().
class TextCorpus {
 public:
  static constexpr std::string_view kKind = "text_corpus";

  virtual ~TextCorpus() = default;
  TextCorpus(const TextCorpus&) = delete;
  TextCorpus& operator=(const TextCorpus&) = delete;

  // Tokens below `vocabulary`, in sequences of `length`.
  const TokenInput& input() const { return input_; }
  std::span<const std::int32_t> tokens(TextSplit split) const {
    return text_.splits[static_cast<std::size_t>(split)];
  }
  // Words that the vocabulary does not have: made <unk>, or left out where it
  // has no such word.
  std::int64_t unknown() const { return text_.unknown; }
  std::int64_t dropped() const { return text_.dropped; }

  // For people, and for text of their own.
  Tokenizer& tokenizer() const { return *tokenizer_; }
  // A hash of the files and parameters: other data most likely have another.
  std::uint64_t fingerprint() const { return key_; }
  // Whether it was read from what an earlier run had prepared.
  bool was_cached() const { return was_cached_; }

 protected:
  // What a corpus is made from.
  struct Recipe {
    std::string_view owner;  // "text_corpus 'ptb'"
    std::string_view name;   // "ptb"
    std::string folder;      // of the files, for the cache
    std::int64_t length = 0;
    std::string params;              // whatever else decides about the tokens
    std::vector<std::string> paths;  // of the files, or what they are
    std::vector<std::string> texts;  // contents of all files
    // Makes the tokens of `texts`; called if nothing is kept.
    std::function<PreparedText(const std::vector<std::string>&)> prepare;
    // Null: the words that were prepared are the tokeniser's.
    std::unique_ptr<Tokenizer> tokenizer{};
  };
  // Throws std::runtime_error unless the texts are UTF-8 and all parts have
  // tokens.
  explicit TextCorpus(Recipe recipe);

 private:
  static void check_texts(const Recipe& recipe);

  TokenInput input_;
  PreparedText text_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::uint64_t key_ = 0;
  bool was_cached_ = false;
};

using TextCorpusEntry = RegistryEntry<TextCorpus, const TextPlace&>;

// Every corpus there is: ptb, wikitext, text, kjv.
std::span<const TextCorpusEntry> text_corpora();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. Throws
// std::runtime_error, saying which files it wants and where to get them, if
// they are not there or not what they should be.
std::unique_ptr<TextCorpus> make_text_corpus(std::string_view text,
                                             const TextPlace& place = {});

}  // namespace sluice
