// Reads vocabularies and merges as anyone may have made them; those it takes
// survive another trip. The first byte says which kind the rest is.

#include "readers.h"
#include "sluice/text/bpe_merges.h"
#include "sluice/text/vocabulary.h"

namespace {

using namespace sluice;

void read_as(std::uint8_t kind, const std::string& path) {
  if (kind % 3 == 0) {
    read_vocabulary_lines("fuzz", path);
  } else if (kind % 3 == 1) {
    read_vocabulary_json("fuzz", path);
  } else {
    Vocabulary words;
    for (const char* word : {"a", "b", "ab", "aa", "aab", "abab"}) {
      words.add(word);
    }
    const BpeMerges merges = read_merges("fuzz", path, words);
    std::vector<std::int32_t> some, all;
    for (int i = 0; i < 40; ++i) some.push_back(i % 3 == 0 ? 1 : 0);
    for (int i = 0; i < 80; ++i) all.push_back(i % 3 == 0 ? 1 : 0);
    merges.apply(some);
    merges.apply(all);
    fuzz::expect_that(!some.empty() && !all.empty(), "tokens were lost");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  if (size == 0) return 0;
  const std::string path =
      fuzz::file_of(std::as_bytes(std::span(data + 1, size - 1)));
  try {
    read_as(data[0], path);
  } catch (const std::runtime_error&) {
  }
  return 0;
}
