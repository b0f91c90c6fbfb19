#include "sluice/text/prepare.h"

#include "sluice/core/error.h"
#include "sluice/core/hash.h"
#include "sluice/text/text_files.h"
#include "sluice/text/word_tokenizer.h"

namespace sluice {
namespace {

void keep_words(const Vocabulary& words, PreparedText& out) {
  out.vocabulary = static_cast<std::int64_t>(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    out.words.emplace_back(words.word(static_cast<std::int64_t>(i)));
  }
}

Vocabulary most_frequent(std::string_view text, bool add_special,
                         std::size_t most) {
  WordCounts counts;
  for_each_word(text, [&](std::string_view word) { counts.add(word); });
  Vocabulary words;
  if (add_special) {
    words.add("<unk>");
    words.add(kEndOfLine);
  }
  for (const auto& row : counts.by_frequency()) {
    if (most > 0 && words.size() >= most) break;
    words.add(row.word);
  }
  return words;
}

}  // namespace

PreparedText prepare_by_frequency(const ThreeTexts& texts, bool add_special,
                                  std::size_t most) {
  const Vocabulary words = most_frequent(texts[0], add_special, most);
  PreparedText out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for_each_word(texts[i], [&](std::string_view word) {
      if (const auto id = words.find(word)) {
        out.splits[i].push_back(*id);
      } else if (words.unknown()) {
        out.splits[i].push_back(*words.unknown());
        ++out.unknown;
      } else {
        ++out.dropped;
      }
    });
  }
  keep_words(words, out);
  return out;
}

PreparedText prepare_in_order(const ThreeTexts& texts) {
  Vocabulary words;
  PreparedText out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for_each_word(texts[i], [&](std::string_view word) {
      out.splits[i].push_back(words.add(word));
    });
  }
  keep_words(words, out);
  return out;
}

PreparedText prepare_with(Tokenizer& tokenizer, const ThreeTexts& texts) {
  PreparedText out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tokenizer.encode(texts[i], out.splits[i]);
  }
  out.vocabulary = tokenizer.size();
  return out;
}

std::unique_ptr<Tokenizer> tokenizer_for(const std::string& tokens,
                                         const std::string& folder) {
  if (tokens == "word") return nullptr;
  return make_tokenizer(tokens, {folder});
}

std::string signature(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return "word";
  std::uint64_t hash = static_cast<std::uint64_t>(tokenizer->size());
  for (std::int32_t i = 0; i < tokenizer->size(); ++i) {
    hash = mix64(hash, content_hash(tokenizer->decode({&i, 1})));
  }
  return concat("tokens ", hash);
}

}  // namespace sluice
