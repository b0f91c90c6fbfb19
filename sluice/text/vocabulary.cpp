#include "sluice/text/vocabulary.h"

#include <algorithm>

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"

namespace sluice {

void WordCounts::add(std::string_view word, std::int64_t times) {
  const auto found = places_.find(word);
  if (found != places_.end()) {
    counts_[found->second] += times;
    return;
  }
  words_.emplace_back(word);
  counts_.push_back(times);
  places_.emplace(words_.back(), words_.size() - 1);
}

std::vector<WordCounts::Row> WordCounts::in_order() const {
  std::vector<Row> rows;
  rows.reserve(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    rows.push_back({words_[i], counts_[i]});
  }
  return rows;
}

std::vector<WordCounts::Row> WordCounts::by_frequency() const {
  std::vector<Row> rows = in_order();
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.count != b.count ? a.count > b.count : a.word < b.word;
  });
  return rows;
}

std::int32_t Vocabulary::add(std::string_view word) {
  const auto found = ids_.find(word);
  if (found != ids_.end()) return found->second;
  require(words_.size() < kMostWords, "[vocabulary] must have at most ",
          kMostWords, " words, got more; use subwords (bpe, wordpiece)");
  const auto id = static_cast<std::int32_t>(words_.size());
  words_.emplace_back(word);
  ids_.emplace(words_.back(), id);
  if (word == "<unk>" || word == "[UNK]") unknown_ = unknown_.value_or(id);
  return id;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view word) const {
  const auto found = ids_.find(word);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string_view Vocabulary::word(std::int64_t id) const {
  require(id >= 0 && static_cast<std::size_t>(id) < words_.size(),
          "[vocabulary] a number must be below ", words_.size(), ", got ", id);
  return words_[static_cast<std::size_t>(id)];
}

std::int32_t Vocabulary::need_unknown(std::string_view owner) const {
  ensure(unknown_.has_value(), "[", owner,
         "] the vocabulary must have a word for unknown ones, <unk> or [UNK], "
         "and none of its ",
         words_.size(), " words is that; add a line with it");
  return *unknown_;
}

}  // namespace sluice
