#pragma once

#include "sluice/text/text_corpus.h"

namespace sluice {

// The Penn Treebank as Mikolov et al. 2010 prepared it: ptb.train.txt,
// ptb.valid.txt, ptb.test.txt. A line break is <eos>; numbers by falling
// frequency, then alphabet, from the training file. Words outside become <unk>
// if it has that (the published files do), else they are left out and counted.
class Ptb final : public TextCorpus {
 public:
  static constexpr std::string_view kName = "ptb";
  static constexpr std::string_view kSummary =
      "Penn Treebank words: ptb.train.txt, ptb.valid.txt, ptb.test.txt";
  struct Params {
    std::int64_t length = 35;
  };
  static ParamList list(Params& p);
  Ptb(const Params& params, const TextPlace& place);

 private:
  static Recipe recipe(const Params& params, const TextPlace& place);
};

// WikiText-2 and -103 (Merity et al. 2016): wiki.train.tokens, train.txt or
// wiki.train.raw, and so on. Words in order of their appearance over train,
// valid and test, <eos> per line; or tokens of vocab.json and merges.txt in the
// same folder, over the text as it is.
class WikiText final : public TextCorpus {
 public:
  static constexpr std::string_view kName = "wikitext";
  static constexpr std::string_view kSummary =
      "WikiText-2 or -103: wiki.{train,valid,test}.tokens or .raw, or "
      "train.txt and so on";
  struct Params {
    std::string tokens = "word";
    std::int64_t length = 70;
  };
  static ParamList list(Params& p);
  WikiText(const Params& params, const TextPlace& place);

 private:
  static Recipe recipe(const Params& params, const TextPlace& place);
};

// Any text file: its last part is for tests, the part before that for
// validation. Cuts move on to the next line (or character, in a text of one
// line). Words are those of the training part by falling frequency, then
// alphabet, behind <unk> and <eos>.
class PlainText final : public TextCorpus {
 public:
  static constexpr std::string_view kName = "text";
  static constexpr std::string_view kSummary =
      "any text file in UTF-8, cut into parts; words, bytes or bpe";
  struct Params {
    std::string file;
    std::string tokens = "word";
    std::int64_t most = 0;
    double valid = 0.05;
    double test = 0.05;
    std::int64_t length = 70;
  };
  static ParamList list(Params& p);
  PlainText(const Params& params, const TextPlace& place);

 private:
  static Recipe recipe(const Params& params, const TextPlace& place);
};

}  // namespace sluice
