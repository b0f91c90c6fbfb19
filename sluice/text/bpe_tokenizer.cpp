#include "sluice/text/bpe_tokenizer.h"

#include "sluice/core/ensure.h"
#include "sluice/core/error.h"
#include "sluice/text/byte_alphabet.h"
#include "sluice/text/gpt2_split.h"
#include "sluice/text/text_files.h"

namespace sluice {
namespace {

constexpr std::string_view kBpeOwner = "tokenizer 'bpe'";
constexpr std::string_view kBpeSource =
    "both files come with a GPT-2 model, or from sluice data vocab --kind bpe";

BpeTokenizer::Model read_bpe(const TokenizerPlace& place) {
  const auto path = [&](const std::string& name) {
    return text_file_in(kBpeOwner, place.folder, {name}, kBpeSource);
  };
  Vocabulary words = read_vocabulary_json(kBpeOwner, path("vocab.json"));
  BpeMerges merges = read_merges(kBpeOwner, path("merges.txt"), words);
  return {std::move(words), std::move(merges)};
}

}  // namespace

BpeTokenizer::BpeTokenizer(const Params&, const TokenizerPlace& place)
    : BpeTokenizer(read_bpe(place)) {}

BpeTokenizer::BpeTokenizer(Model model)
    : words_(std::move(model.words)), merges_(std::move(model.merges)) {
  const ByteAlphabet alphabet;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const std::string name = alphabet.written({&c, 1});
    const auto id = words_.find(name);
    ensure(id.has_value(), "[", kBpeOwner,
           "] the vocabulary must have a token for every byte, lacks '", name,
           "' (byte ", byte, "); take vocab.json of a byte-level model");
    bytes_[byte] = *id;
  }
  texts_.reserve(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::string_view word = words_.word(static_cast<std::int64_t>(i));
    texts_.push_back(alphabet.read(word).value_or(std::string(word)));
  }
  set_special({.end = words_.find("<|endoftext|>")});
}

void BpeTokenizer::encode(std::string_view text,
                          std::vector<std::int32_t>& out) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_piece_end(text, at);
    encode_piece(text.substr(at, end - at), out);
    at = end;
  }
}

void BpeTokenizer::encode_piece(std::string_view piece,
                                std::vector<std::int32_t>& out) {
  const std::uint64_t hash = WordCache::hash(piece);
  const WordCache::Found found = cache_.find(piece, hash);
  if (found.known) {
    out.insert(out.end(), found.ids.begin(), found.ids.end());
    return;
  }
  piece_.clear();
  for (const char c : piece) {
    piece_.push_back(bytes_[static_cast<unsigned char>(c)]);
  }
  merges_.apply(piece_);
  cache_.insert(piece, hash, piece_);
  out.insert(out.end(), piece_.begin(), piece_.end());
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < size(), "[bpe] a token must be below ",
            size(), ", got ", token);
    text += texts_[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace sluice
