// Any bytes through every tokeniser: what is no UTF-8 is refused by all alike,
// what BPE takes comes back as it was, and places lie in the text.

#include <memory>

#include "readers.h"
#include "sluice/text/bpe_tokenizer.h"
#include "sluice/text/byte_alphabet.h"
#include "sluice/text/utf8.h"
#include "sluice/text/word_tokenizer.h"
#include "sluice/text/wordpiece_tokenizer.h"

namespace {

using namespace sluice;

std::unique_ptr<BpeTokenizer> make_bpe() {
  BpeTokenizer::Model model;
  const ByteAlphabet alphabet;
  for (const unsigned char byte : alphabet.order()) {
    const char c = static_cast<char>(byte);
    model.words.add(alphabet.written({&c, 1}));
  }
  for (const auto& [left, right] :
       {std::pair{"a", "b"}, {"a", "a"}, {"aa", "ab"}, {"t", "h"}}) {
    const auto result = model.words.add(std::string(left) + right);
    model.merges.add(*model.words.find(left), *model.words.find(right), result);
  }
  return std::make_unique<BpeTokenizer>(std::move(model));
}

Vocabulary pieces() {
  Vocabulary words;
  for (const char* word : {"[UNK]", "<eos>", "a", "##a", "##b", "the", "."}) {
    words.add(word);
  }
  return words;
}

// Whether it took the text.
template <class F>
bool takes(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text = fuzz::as_text(data, size);
  const bool sound = first_invalid_utf8(text) == std::string_view::npos;
  static const auto bpe = make_bpe();
  static WordTokenizer word(pieces());
  static WordPieceTokenizer wordpiece({}, pieces());
  const auto same = [&](bool took) {
    fuzz::expect_that(took == sound, "UTF-8 is judged in two ways");
  };
  same(takes([&] {
    fuzz::expect_that(bpe->decode(bpe->encode(text)) == text,
                      "another text came back");
  }));
  same(takes([&] { word.encode(text); }));
  same(takes([&] {
    const auto placed = wordpiece.encode_placed(text);
    const auto plain = wordpiece.encode(text);
    fuzz::expect_that(placed.size() == plain.size(), "other tokens");
    for (const PlacedToken& token : placed) {
      fuzz::expect_that(
          token.place.begin < token.place.end && token.place.end <= text.size(),
          "a place lies outside the text");
    }
  }));
  return 0;
}
