#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/text/vocabulary.h"

namespace sluice {

// The merges of byte-pair encoding: which pairs of tokens become one, and in
// which order.
class BpeMerges {
 public:
  struct Merge {
    std::int32_t rank;
    std::int32_t result;
  };

  // The next rank. A pair that is there already keeps its first.
  void add(std::int32_t left, std::int32_t right, std::int32_t result);
  // Null if the pair is not merged.
  const Merge* find(std::int32_t left, std::int32_t right) const;
  std::size_t size() const { return size_; }

  // Merges until nothing is left to merge: again and again the pair of the
  // lowest rank, wherever it stands, from left to right. Takes n log n steps.
  void apply(std::vector<std::int32_t>& tokens) const;

 private:
  void apply_short(std::vector<std::int32_t>& tokens) const;
  void apply_long(std::vector<std::int32_t>& tokens) const;

  struct PairHash {
    std::size_t operator()(std::uint64_t key) const;
  };
  std::unordered_map<std::uint64_t, Merge, PairHash> merges_;
  std::size_t size_ = 0;
};

// merges.txt: "left right" per line, after a first line that begins with
// #version (if there is one). Throws std::runtime_error, naming file and line,
// if a line is not that, or the vocabulary lacks one of the two or what they
// make.
BpeMerges read_merges(std::string_view owner, const std::string& path,
                      const Vocabulary& words);

}  // namespace sluice
