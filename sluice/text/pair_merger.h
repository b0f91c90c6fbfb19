#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// Words as lists of tokens, whose most frequent pair of neighbours is merged
// next. What both trainers of subwords share.
class PairMerger {
 public:
  // `inside` begins tokens that go on with a word ("##" or nothing): the right
  // one of a pair loses it.
  explicit PairMerger(std::string_view inside) : inside_(inside) {}
  PairMerger(const PairMerger&) = delete;
  PairMerger& operator=(const PairMerger&) = delete;

  // The number of a token, a new one if it is new.
  std::int32_t token(const std::string& text);
  const std::string& text(std::int32_t token) const {
    return texts_[static_cast<std::size_t>(token)];
  }
  // Before the first merge.
  void add_word(std::vector<std::int32_t> tokens, std::int64_t count);

  struct Merged {
    std::int32_t left;
    std::int32_t right;
    std::int32_t result;
  };
  // Merges the next pair everywhere; none if no pair is left.
  std::optional<Merged> merge_next();

 private:
  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t count;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // that have it, or had
  };
  struct Ranked {
    std::int64_t count;
    std::int32_t left;
    std::int32_t right;
  };
  struct Later {
    const PairMerger* merger;
    bool operator()(const Ranked& a, const Ranked& b) const;
  };

  void change(std::int32_t left, std::int32_t right, std::int64_t by,
              std::uint32_t word);
  void merge_in(std::uint32_t word, const Merged& merge);
  void offer_changed();

  std::string inside_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::vector<std::uint64_t> changed_;
  std::priority_queue<Ranked, std::vector<Ranked>, Later> queue_{Later{this}};
};

}  // namespace sluice
