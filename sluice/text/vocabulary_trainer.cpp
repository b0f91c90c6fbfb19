#include "sluice/text/vocabulary_trainer.h"

#include <algorithm>
#include <map>

#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"
#include "sluice/text/basic_words.h"
#include "sluice/text/byte_alphabet.h"
#include "sluice/text/gpt2_split.h"
#include "sluice/text/pair_merger.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view kInsideWord = "##";
constexpr std::string_view kEndOfText = "<|endoftext|>";

// The characters of a word, the later ones with ##.
std::vector<std::string> characters_of(std::string_view word) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t bytes = code_point_at(word, i).bytes;
    all.push_back(concat(i == 0 ? "" : kInsideWord, word.substr(i, bytes)));
    i += bytes;
  }
  return all;
}

std::string_view bare(std::string_view character) {
  return character.size() > kInsideWord.size() &&
                 character.starts_with(kInsideWord)
             ? character.substr(kInsideWord.size())
             : character;
}

// Words are unknown for characters beyond these: rare ones of other scripts
// would fill the vocabulary.
constexpr std::size_t kMostCharacters = 1000;

// The characters to keep, with and without ##, in order.
Vocabulary alphabet_of(const WordCounts& counts) {
  WordCounts characters;
  std::map<std::string, bool> forms;
  for (const auto& [word, count] : counts.in_order()) {
    for (const std::string& form : characters_of(word)) {
      characters.add(bare(form), count);
      forms.emplace(form, true);
    }
  }
  auto rows = characters.by_frequency();
  rows.resize(std::min(rows.size(), kMostCharacters));
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.word < b.word; });
  Vocabulary words;
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    words.add(special);
  }
  for (const auto& row : rows) {
    if (forms.contains(std::string(row.word))) words.add(row.word);
  }
  for (const auto& row : rows) {
    const std::string form = concat(kInsideWord, row.word);
    if (forms.contains(form)) words.add(form);
  }
  return words;
}

void report(const TrainingProgress& progress, std::size_t done,
            std::size_t all) {
  if (progress && (done % 64 == 0 || done == all)) progress(done, all);
}

}  // namespace

void PieceCounts::add(std::string_view text) {
  if (kind_ == Kind::kWordPiece) {
    BasicWords(lower_).for_each(
        text, [&](const BasicWord& word) { counts_.add(word.text()); });
    return;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at);
    counts_.add(text.substr(at, end - at));
    at = end;
  }
}

TrainedBpe train_bpe(const PieceCounts& pieces, std::size_t size,
                     const TrainingProgress& progress) {
  constexpr std::size_t kLeast = 257;
  require(size >= kLeast && size <= Vocabulary::kMostWords,
          "[vocab] a bpe vocabulary must have from ", kLeast, " (bytes and ",
          kEndOfText, ") to ", Vocabulary::kMostWords, " tokens, got ", size);
  const ByteAlphabet alphabet;
  PairMerger merger("");
  TrainedBpe model;
  for (const unsigned char byte : alphabet.order()) {
    const char c = static_cast<char>(byte);
    model.words.add(alphabet.written({&c, 1}));
  }
  for (const auto& [piece, count] : pieces.counts().in_order()) {
    std::vector<std::int32_t> tokens;
    for (const char& c : piece) {
      tokens.push_back(merger.token(alphabet.written({&c, 1})));
    }
    merger.add_word(std::move(tokens), count);
  }
  while (model.words.size() + 1 < size) {
    const auto merged = merger.merge_next();
    if (!merged) break;
    model.merges.emplace_back(merger.text(merged->left),
                              merger.text(merged->right));
    model.words.add(merger.text(merged->result));
    report(progress, model.words.size() + 1 - kLeast, size - kLeast);
  }
  model.words.add(kEndOfText);
  return model;
}

Vocabulary train_wordpiece(const PieceCounts& pieces, std::size_t size,
                           const TrainingProgress& progress) {
  Vocabulary words = alphabet_of(pieces.counts());
  const std::size_t least = words.size();
  require(size >= least && size <= Vocabulary::kMostWords,
          "[vocab] a wordpiece vocabulary of this text must have from ", least,
          " (its characters and 5 special tokens) to ", Vocabulary::kMostWords,
          " pieces, got ", size);
  PairMerger merger(kInsideWord);
  for (const auto& [word, count] : pieces.counts().in_order()) {
    std::vector<std::int32_t> tokens;
    bool known = true;
    for (const std::string& form : characters_of(word)) {
      known = known && words.find(form).has_value();
      if (known) tokens.push_back(merger.token(form));
    }
    if (known) merger.add_word(std::move(tokens), count);
  }
  while (words.size() < size) {
    const auto merged = merger.merge_next();
    if (!merged) break;
    words.add(merger.text(merged->result));
    report(progress, words.size() - least, size - least);
  }
  return words;
}

void write_bpe(const TrainedBpe& model, const std::string& folder) {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : model.merges) {
    text += concat(left, " ", right, "\n");
  }
  // merges.txt last: who finds it finds the vocabulary that goes with it.
  write_vocabulary_json(model.words, folder + "/vocab.json");
  write_text(folder + "/merges.txt", text);
}

}  // namespace sluice
