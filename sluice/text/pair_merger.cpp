#include "sluice/text/pair_merger.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}
std::int32_t left_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key >> 32);
}
std::int32_t right_of(std::uint64_t key) {
  return static_cast<std::int32_t>(key & 0xffffffffU);
}

}  // namespace

bool PairMerger::Later::operator()(const Ranked& a, const Ranked& b) const {
  if (a.count != b.count) return a.count < b.count;
  if (a.left != b.left) return merger->text(a.left) > merger->text(b.left);
  return merger->text(a.right) > merger->text(b.right);
}

std::int32_t PairMerger::token(const std::string& text) {
  const auto [at, added] =
      ids_.try_emplace(text, static_cast<std::int32_t>(texts_.size()));
  if (added) texts_.push_back(text);
  return at->second;
}

void PairMerger::add_word(std::vector<std::int32_t> tokens,
                          std::int64_t count) {
  const auto word = static_cast<std::uint32_t>(words_.size());
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    change(tokens[i], tokens[i + 1], count, word);
  }
  words_.push_back({std::move(tokens), count});
}

void PairMerger::change(std::int32_t left, std::int32_t right, std::int64_t by,
                        std::uint32_t word) {
  const std::uint64_t key = key_of(left, right);
  Pair& pair = pairs_[key];
  pair.count += by;
  if (by > 0 && (pair.words.empty() || pair.words.back() != word)) {
    pair.words.push_back(word);
  }
  changed_.push_back(key);
}

// Counts in the queue may be old; those of today are in it as well.
void PairMerger::offer_changed() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  for (const std::uint64_t key : changed_) {
    const std::int64_t count = pairs_.at(key).count;
    if (count > 0) queue_.push({count, left_of(key), right_of(key)});
  }
  changed_.clear();
}

std::optional<PairMerger::Merged> PairMerger::merge_next() {
  offer_changed();
  while (!queue_.empty()) {
    const Ranked best = queue_.top();
    queue_.pop();
    const auto found = pairs_.find(key_of(best.left, best.right));
    if (found == pairs_.end() || found->second.count != best.count) continue;
    std::string joined = text(best.left);
    joined.append(text(best.right), inside_.size());
    const Merged merged = {best.left, best.right, token(joined)};
    std::vector<std::uint32_t> words = std::move(found->second.words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const std::uint32_t word : words) merge_in(word, merged);
    pairs_.erase(key_of(best.left, best.right));
    std::erase(changed_, key_of(best.left, best.right));
    return merged;
  }
  return std::nullopt;
}

void PairMerger::merge_in(std::uint32_t index, const Merged& merge) {
  Word& word = words_[index];
  std::vector<std::int32_t>& tokens = word.tokens;
  const auto here = [&](std::size_t i) {
    return i + 1 < tokens.size() && tokens[i] == merge.left &&
           tokens[i + 1] == merge.right;
  };
  std::size_t i = 0;
  while (i < tokens.size() && !here(i)) ++i;
  if (i == tokens.size()) return;
  // All its pairs out, the word changed, all its pairs in: words are short.
  for (std::size_t k = 0; k + 1 < tokens.size(); ++k) {
    change(tokens[k], tokens[k + 1], -word.count, index);
  }
  std::size_t kept = i;
  for (; i < tokens.size(); ++i) {
    const bool merges = here(i);
    tokens[kept++] = merges ? merge.result : tokens[i];
    if (merges) ++i;
  }
  tokens.resize(kept);
  for (std::size_t k = 0; k + 1 < tokens.size(); ++k) {
    change(tokens[k], tokens[k + 1], word.count, index);
  }
}

}  // namespace sluice
