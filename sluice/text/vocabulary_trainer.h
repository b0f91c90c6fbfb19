#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/text/vocabulary.h"

namespace sluice {

// Subword vocabularies from texts.
//
// Both kinds merge, again and again, the pair of neighbours that occurs most
// often; of equals the one whose left, then right, token comes first by its
// bytes. So the same texts give the same files everywhere. (BERT's own trainer
// was never published; by pair counts is how the trainers in use make
// WordPiece.) Counts of pairs are kept up to date where a merge changes them,
// so a merge takes time by the words it changes.

// So many merges of how many.
using TrainingProgress = std::function<void(std::size_t, std::size_t)>;

// How often pieces occur that merges never cross.
class PieceCounts {
 public:
  enum class Kind { kBpe, kWordPiece };
  // `lower` is for WordPiece: count words as uncased models see them.
  explicit PieceCounts(Kind kind, bool lower = true)
      : kind_(kind), lower_(lower) {}

  // Throws std::invalid_argument where the text is no UTF-8.
  void add(std::string_view text);
  const WordCounts& counts() const { return counts_; }
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
  bool lower_;
  WordCounts counts_;
};

struct TrainedBpe {
  Vocabulary words;
  std::vector<std::pair<std::string, std::string>> merges;
};

// The 256 bytes in GPT-2's order, then merges, then <|endoftext|>: `size` in
// all, or fewer if nothing is left to merge. Throws std::invalid_argument for
// sizes below 257.
TrainedBpe train_bpe(const PieceCounts& pieces, std::size_t size,
                     const TrainingProgress& progress = {});

// [PAD] [UNK] [CLS] [SEP] [MASK], then the characters of the text (at most 1000
// of them, by falling count) with and without ## as they occur, in order of
// code points, then merges. Throws std::invalid_argument if `size` does not
// hold the characters.
Vocabulary train_wordpiece(const PieceCounts& pieces, std::size_t size,
                           const TrainingProgress& progress = {});

// vocab.json and merges.txt. Throws std::runtime_error if the disk refuses.
void write_bpe(const TrainedBpe& model, const std::string& folder);

}  // namespace sluice
