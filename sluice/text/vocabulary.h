#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// How often words occur, in order of their first appearance.
class WordCounts {
 public:
  void add(std::string_view word, std::int64_t times = 1);

  struct Row {
    std::string_view word;
    std::int64_t count;
  };
  // Good until the next add.
  std::vector<Row> in_order() const;
  // By falling count, equals by their bytes (so by code point).
  std::vector<Row> by_frequency() const;
  std::size_t size() const { return words_.size(); }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
  std::deque<std::string> words_;
  std::vector<std::int64_t> counts_;
};

// Words and their numbers, 0 to size() - 1.
//
// The unknown word is "<unk>" or "[UNK]", whichever there is.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // The number of `word`, which gets the next one if it is new. Throws
  // std::invalid_argument beyond kMostWords.
  std::int32_t add(std::string_view word);

  std::size_t size() const { return words_.size(); }
  std::optional<std::int32_t> find(std::string_view word) const;
  // Throws std::invalid_argument for a number that there is not.
  std::string_view word(std::int64_t id) const;

  std::optional<std::int32_t> unknown() const { return unknown_; }
  // Throws std::runtime_error, beginning with "[`owner`]", if there is none.
  std::int32_t need_unknown(std::string_view owner) const;

  static constexpr std::size_t kMostWords = std::size_t{1} << 26;

 private:
  std::deque<std::string> words_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::optional<std::int32_t> unknown_;
};

// One word per line, the first is number 0; or a JSON object of words and
// numbers (vocab.json), each number below their count once. Readers throw
// std::runtime_error, naming file and line (or word), for anything else, and
// for files that cannot be read.
Vocabulary read_vocabulary_lines(std::string_view owner,
                                 const std::string& path);
Vocabulary read_vocabulary_json(std::string_view owner,
                                const std::string& path);
// Writers throw std::invalid_argument for a word that the form cannot carry
// (with a line break in it) and std::runtime_error if the disk refuses.
void write_vocabulary_lines(const Vocabulary& words, const std::string& path);
void write_vocabulary_json(const Vocabulary& words, const std::string& path);

}  // namespace sluice
