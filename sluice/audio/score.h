#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The fewest insertions, deletions and substitutions that make one of the
// other. Time a.size() * b.size(), memory b.size().
template <class T>
std::size_t edit_distance(std::span<const T> a, std::span<const T> b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Errors, and the length of the reference, in words or letters.
struct SpeechErrors {
  std::size_t errors = 0;
  std::size_t length = 0;

  // errors / length. Of an empty reference: 0 if nothing was heard, else 1.
  double rate() const;
};

// Words are what blanks separate.
SpeechErrors word_errors(std::string_view reference, std::string_view heard);
// Letters without blanks, as DeepSpeech's code counts them.
SpeechErrors letter_errors(std::string_view reference, std::string_view heard);

// Error rates of a data set, both as they are published for this job (the mean
// of the utterances' rates, in which a word of a short one weighs more) and as
// they are elsewhere (all errors over all lengths). Empty references count
// as one utterance with a rate of 0 or 1 in the first, and bring their errors,
// but no length, to the second.
class SpeechScore {
 public:
  void add(std::string_view reference, std::string_view heard);
  // What another rank has counted.
  void add(const SpeechScore& other);

  // All that is counted, to be added up over ranks: utterances, the sums of
  // their rates in words and letters, errors and length in words, in letters.
  using Sums = std::array<double, 7>;
  Sums sums() const;
  static SpeechScore from_sums(const Sums& sums);

  std::size_t utterances() const { return utterances_; }
  // 0 if nothing was added.
  double mean_wer() const { return mean(word_rates_); }
  double mean_cer() const { return mean(letter_rates_); }
  double corpus_wer() const { return words_.rate(); }
  double corpus_cer() const { return letters_.rate(); }

 private:
  double mean(double sum) const {
    return utterances_ == 0 ? 0 : sum / static_cast<double>(utterances_);
  }

  std::size_t utterances_ = 0;
  double word_rates_ = 0;
  double letter_rates_ = 0;
  SpeechErrors words_;
  SpeechErrors letters_;
};

// Greedy CTC decoding: of the best label of each frame, repeats are one and
// blanks (Labels::kBlank) nothing.
std::vector<std::int32_t> greedy_ctc(std::span<const std::int32_t> best);

// The fewest frames that CTC can fit these labels into: one for each, and a
// blank between equal neighbours.
std::size_t least_ctc_frames(std::span<const std::int32_t> targets);

// "[ctc] clip 'name' must have ...", with what to do about it.
std::string ctc_misfit_message(std::string_view name,
                               std::span<const std::int32_t> targets,
                               std::size_t frames);

}  // namespace sluice
