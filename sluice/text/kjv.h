#pragma once

#include <array>
#include <string>
#include <string_view>

#include "sluice/text/text_corpus.h"

namespace sluice {

// The King James text as Debian's bible-kjv prints it, a verse per line with
// its place before it ("Ge1:1 In the beginning ..."). Chapters are spread over
// the parts by a hash of book and chapter that never changes: 18 of 20 train, 1
// valid, 1 test.
class Kjv final : public TextCorpus {
 public:
  static constexpr std::string_view kName = "kjv";
  static constexpr std::string_view kSummary =
      "the King James text, by chapters; of Debian's package bible-kjv, or "
      "kjv.txt";
  struct Params {
    std::string tokens = "word";
    std::int64_t length = 70;
  };
  static ParamList list(Params& p);
  // kjv.txt of the folder; without a folder, or kjv.txt in it, what the program
  // `bible` prints. vocab.json and merges.txt, for bpe, are in the folder.
  Kjv(const Params& params, const TextPlace& place);

 private:
  static Recipe recipe(const Params& params, const TextPlace& place);
};

// kjv.txt of the folder or, where there is none, what `bible` prints. Throws
// std::runtime_error, saying what to install, if there is neither.
std::string read_kjv(const std::string& folder);

// The verses of the parts (train, valid, test), a line each, without their
// places. With `spaced`, words and punctuation have blanks between them, in the
// case they have. Throws std::runtime_error, naming the line, for what is no
// verse.
std::array<std::string, 3> split_verses(std::string_view text, bool spaced);

}  // namespace sluice
