#include "sluice/text/text_corpus.h"

#include <array>

#include "sluice/core/ensure.h"
#include "sluice/core/hash.h"
#include "sluice/text/corpora.h"
#include "sluice/text/kjv.h"
#include "sluice/text/text_files.h"
#include "sluice/text/utf8.h"
#include "sluice/text/word_tokenizer.h"

namespace sluice {
namespace {

constexpr std::array kTextCorpora = {
    registry_entry<Ptb, TextCorpus, const TextPlace&>(),
    registry_entry<WikiText, TextCorpus, const TextPlace&>(),
    registry_entry<PlainText, TextCorpus, const TextPlace&>(),
    registry_entry<Kjv, TextCorpus, const TextPlace&>(),
};

// Changes whenever the same files would give other tokens than before.
constexpr std::uint64_t kPreparation = 1;

std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& words) {
  Vocabulary vocabulary;
  for (const std::string& word : words) vocabulary.add(word);
  return std::make_unique<WordTokenizer>(std::move(vocabulary));
}

}  // namespace

std::string_view name_of(TextSplit split) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<std::size_t>(split)];
}

// Left out where the tokens are at hand: they were made of the same bytes.
void TextCorpus::check_texts(const Recipe& recipe) {
  for (std::size_t i = 0; i < recipe.texts.size(); ++i) {
    check_utf8(recipe.owner, recipe.paths[i], recipe.texts[i]);
  }
}

TextCorpus::TextCorpus(Recipe recipe)
    : tokenizer_(std::move(recipe.tokenizer)) {
  key_ = mix64(kPreparation, content_hash(recipe.params));
  for (const std::string& text : recipe.texts) {
    key_ = mix64(key_, content_hash(text));
  }
  auto cached = load_cached(recipe.folder, recipe.name, key_);
  was_cached_ = cached.has_value();
  if (was_cached_) {
    text_ = std::move(*cached);
  } else {
    check_texts(recipe);
    text_ = recipe.prepare(recipe.texts);
  }
  for (const TextSplit split :
       {TextSplit::kTrain, TextSplit::kValid, TextSplit::kTest}) {
    // A token to be told and one to tell it from.
    ensure(tokens(split).size() >= 2, "[", recipe.owner, "] the ",
           name_of(split), " part must have at least 2 tokens, has ",
           tokens(split).size(), "; take a longer text");
  }
  if (tokenizer_ == nullptr) tokenizer_ = tokenizer_of(text_.words);
  if (!was_cached_) store_cached(recipe.folder, recipe.name, key_, text_);
  input_ = {text_.vocabulary, recipe.length};
}

std::span<const TextCorpusEntry> text_corpora() { return kTextCorpora; }

std::unique_ptr<TextCorpus> make_text_corpus(std::string_view text,
                                             const TextPlace& place) {
  return make_from(text_corpora(), TextCorpus::kKind, text, place);
}

}  // namespace sluice
