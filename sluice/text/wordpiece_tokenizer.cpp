#include "sluice/text/wordpiece_tokenizer.h"

#include <algorithm>

#include "sluice/text/text_files.h"
#include "sluice/text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view kWordPieceOwner = "tokenizer 'wordpiece'";
constexpr std::string_view kInside = "##";

bool begins_character(std::string_view text, std::size_t at) {
  return at == text.size() ||
         (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80;
}

}  // namespace

ParamList WordPieceTokenizer::list(Params& p) {
  return {
      {"lower", &p.lower, "lower case and no accents, for uncased models"},
      {"longest", &p.longest, "words of more characters are unknown", 1, 200}};
}

WordPieceTokenizer::WordPieceTokenizer(const Params& params,
                                       const TokenizerPlace& place)
    : WordPieceTokenizer(
          params, read_vocabulary_lines(
                      kWordPieceOwner,
                      text_file_in(kWordPieceOwner, place.folder, {"vocab.txt"},
                                   "it comes with a BERT model, or from sluice "
                                   "data vocab --kind wordpiece"))) {}

WordPieceTokenizer::WordPieceTokenizer(const Params& params, Vocabulary words)
    : words_(std::move(words)),
      params_(params),
      unknown_(words_.need_unknown(kWordPieceOwner)),
      basic_(params.lower) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    longest_piece_ = std::max(longest_piece_,
                              words_.word(static_cast<std::int64_t>(i)).size());
  }
  set_special({.unknown = unknown_,
               .pad = words_.find("[PAD]"),
               .classify = words_.find("[CLS]"),
               .separate = words_.find("[SEP]"),
               .mask = words_.find("[MASK]")});
}

void WordPieceTokenizer::encode(std::string_view text,
                                std::vector<std::int32_t>& out) {
  basic_.for_each(text, [&](const BasicWord& word) {
    const auto ids = pieces_of(word.text());
    out.insert(out.end(), ids.begin(), ids.end());
  });
}

std::vector<PlacedToken> WordPieceTokenizer::encode_placed(
    std::string_view text) {
  std::vector<PlacedToken> out;
  basic_.for_each(text, [&](const BasicWord& word) {
    const auto ids = pieces_of(word.text());
    std::size_t at = 0;
    for (const std::int32_t id : ids) {
      const std::size_t size = words_.word(id).size();
      const std::size_t bytes = id == unknown_ ? word.text().size()
                                : at == 0      ? size
                                               : size - kInside.size();
      out.push_back({id, word.origin(at, at + bytes)});
      at += bytes;
    }
  });
  return out;
}

std::span<const std::int32_t> WordPieceTokenizer::pieces_of(
    std::string_view word) {
  const std::uint64_t hash = WordCache::hash(word);
  const WordCache::Found found = cache_.find(word, hash);
  if (found.known) return found.ids;
  pieces_.clear();
  if (!cut(word)) pieces_.assign(1, unknown_);
  cache_.insert(word, hash, pieces_);
  return pieces_;
}

bool WordPieceTokenizer::cut(std::string_view word) {
  if (count_code_points(word) > static_cast<std::size_t>(params_.longest)) {
    return false;
  }
  for (std::size_t at = 0; at < word.size();) {
    letters_.assign(at == 0 ? "" : kInside);
    const std::size_t mark = letters_.size();
    letters_.append(word.substr(at));
    std::size_t end = std::min(letters_.size(), longest_piece_);
    std::int32_t id = -1;
    for (; end > mark; --end) {
      if (!begins_character(letters_, end)) continue;
      // A word that spells the unknown token is not it.
      id = words_.find(std::string_view(letters_).substr(0, end)).value_or(-1);
      if (id >= 0 && id != unknown_) break;
      id = -1;
    }
    if (id < 0) return false;
    pieces_.push_back(id);
    at += end - mark;
  }
  return true;
}

std::string WordPieceTokenizer::decode(
    std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    std::string_view word = words_.word(token);
    if (word.starts_with(kInside) && word.size() > kInside.size()) {
      word.remove_prefix(kInside.size());
    } else if (!text.empty()) {
      text += ' ';
    }
    text.append(word);
  }
  return text;
}

}  // namespace sluice
