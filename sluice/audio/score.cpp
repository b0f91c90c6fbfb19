#include "sluice/audio/score.h"

#include "sluice/audio/labels.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string letters_of(std::string_view text) {
  std::string letters(text);
  std::erase(letters, ' ');
  return letters;
}

template <class Pieces>
SpeechErrors errors_between(const Pieces& reference, const Pieces& heard) {
  using T = typename Pieces::value_type;
  return {
      edit_distance(std::span<const T>(reference), std::span<const T>(heard)),
      reference.size()};
}

}  // namespace

double SpeechErrors::rate() const {
  if (length == 0) return errors == 0 ? 0 : 1;
  return static_cast<double>(errors) / static_cast<double>(length);
}

SpeechErrors word_errors(std::string_view reference, std::string_view heard) {
  return errors_between(words_of(reference), words_of(heard));
}

SpeechErrors letter_errors(std::string_view reference, std::string_view heard) {
  return errors_between(letters_of(reference), letters_of(heard));
}

void SpeechScore::add(std::string_view reference, std::string_view heard) {
  SpeechScore one;
  one.utterances_ = 1;
  one.words_ = word_errors(reference, heard);
  one.letters_ = letter_errors(reference, heard);
  one.word_rates_ = one.words_.rate();
  one.letter_rates_ = one.letters_.rate();
  add(one);
}

void SpeechScore::add(const SpeechScore& other) {
  utterances_ += other.utterances_;
  word_rates_ += other.word_rates_;
  letter_rates_ += other.letter_rates_;
  words_.errors += other.words_.errors;
  words_.length += other.words_.length;
  letters_.errors += other.letters_.errors;
  letters_.length += other.letters_.length;
}

SpeechScore::Sums SpeechScore::sums() const {
  const auto number = [](std::size_t n) { return static_cast<double>(n); };
  return {number(utterances_),    word_rates_,
          letter_rates_,          number(words_.errors),
          number(words_.length),  number(letters_.errors),
          number(letters_.length)};
}

SpeechScore SpeechScore::from_sums(const Sums& sums) {
  for (const double sum : sums) {
    require(sum >= 0 && sum <= 0x1p53,
            "[score] sums must be from 0 to 2^53, got ", sum);
  }
  const auto count = [&](std::size_t i) {
    return static_cast<std::size_t>(sums[i]);
  };
  SpeechScore score;
  score.utterances_ = count(0);
  score.word_rates_ = sums[1];
  score.letter_rates_ = sums[2];
  score.words_ = {count(3), count(4)};
  score.letters_ = {count(5), count(6)};
  return score;
}

std::vector<std::int32_t> greedy_ctc(std::span<const std::int32_t> best) {
  std::vector<std::int32_t> labels;
  std::int32_t last = Labels::kBlank;
  for (const std::int32_t label : best) {
    if (label != last && label != Labels::kBlank) labels.push_back(label);
    last = label;
  }
  return labels;
}

std::size_t least_ctc_frames(std::span<const std::int32_t> targets) {
  std::size_t frames = targets.size();
  for (std::size_t i = 1; i < targets.size(); ++i) {
    if (targets[i] == targets[i - 1]) ++frames;
  }
  return frames;
}

std::string ctc_misfit_message(std::string_view name,
                               std::span<const std::int32_t> targets,
                               std::size_t frames) {
  return concat("[ctc] clip '", name, "' must have at least ",
                least_ctc_frames(targets), " frames for its ", targets.size(),
                " letters (repeats need a blank between), has ", frames,
                "; is it the right transcript? else leave the clip out, use a "
                "model with a smaller stride, or less tempo");
}

}  // namespace sluice
