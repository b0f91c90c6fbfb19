#include "sluice/text/token_cache.h"

#include <cstring>

#include "sluice/core/error.h"
#include "sluice/text/text_files.h"

namespace sluice {
namespace {

constexpr std::string_view kTextMagic = "SLUTEXT1";
// Magic, key, vocabulary, unknown, dropped, three counts, words, their bytes.
constexpr std::size_t kNumbers = 9;
constexpr std::size_t kHeader = 8 + 8 * kNumbers;
constexpr std::size_t kFooter = 8;

void put_number(std::string& to, std::uint64_t value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

struct Header {
  std::uint64_t key, vocabulary, unknown, dropped;
  std::array<std::uint64_t, 3> counts;
  std::uint64_t words, word_bytes;
};

Header header_of(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return number_at(bytes, 8 + 8 * i); };
  return {at(0), at(1), at(2), at(3), {at(4), at(5), at(6)}, at(7), at(8)};
}

// Counts may be anything, so none is multiplied before it is known to be small.
bool fits(const Header& h, std::size_t size) {
  std::uint64_t left = size - kHeader - kFooter;
  for (const std::uint64_t count : h.counts) {
    if (count > left / 4) return false;
    left -= 4 * count;
  }
  return h.word_bytes == left && h.words <= h.word_bytes;
}

bool read_words(std::string_view bytes, std::uint64_t count,
                std::vector<std::string>& words) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = bytes.find('\n', at);
    if (end == bytes.npos) return false;
    words.emplace_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return words.size() == count;
}

bool tokens_lie_below(const PreparedText& text) {
  for (const auto& split : text.splits) {
    for (const std::int32_t token : split) {
      if (token < 0 || token >= text.vocabulary) return false;
    }
  }
  return true;
}

}  // namespace

std::string pack_text(const PreparedText& text, std::uint64_t key) {
  std::string words;
  for (const std::string& word : text.words) words.append(word) += '\n';
  std::string bytes(kTextMagic);
  put_number(bytes, key);
  for (const std::int64_t n : {text.vocabulary, text.unknown, text.dropped}) {
    put_number(bytes, static_cast<std::uint64_t>(n));
  }
  for (const auto& split : text.splits) put_number(bytes, split.size());
  put_number(bytes, text.words.size());
  put_number(bytes, words.size());
  bytes.append(words);
  for (const auto& split : text.splits) {
    bytes.append(reinterpret_cast<const char*>(split.data()), 4 * split.size());
  }
  put_number(bytes, content_hash(bytes));
  return bytes;
}

std::optional<PreparedText> unpack_text(std::string_view bytes,
                                        std::uint64_t key,
                                        std::string& problem) {
  const auto refuse = [&](const char* why) {
    problem = why;
    return std::nullopt;
  };
  if (bytes.size() < kHeader + kFooter) return refuse("it is cut");
  if (!bytes.starts_with(kTextMagic)) return refuse("its magic is another");
  const Header h = header_of(bytes);
  if (h.key != key) return refuse("it is of another text");
  if (!fits(h, bytes.size())) return refuse("its sizes do not fit it");
  const std::size_t end = bytes.size() - kFooter;
  if (content_hash(bytes.substr(0, end)) != number_at(bytes, end)) {
    return refuse("its checksum is wrong");
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  if (h.vocabulary > kMost || h.unknown > INT64_MAX || h.dropped > INT64_MAX) {
    return refuse("its numbers are too large");
  }
  PreparedText text;
  text.vocabulary = static_cast<std::int64_t>(h.vocabulary);
  text.unknown = static_cast<std::int64_t>(h.unknown);
  text.dropped = static_cast<std::int64_t>(h.dropped);
  if (!read_words(bytes.substr(kHeader, h.word_bytes), h.words, text.words) ||
      (h.words != 0 && h.words != h.vocabulary)) {
    return refuse("its words are not as many as it says");
  }
  std::size_t at = kHeader + h.word_bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    text.splits[i].resize(h.counts[i]);
    if (h.counts[i] > 0) {
      std::memcpy(text.splits[i].data(), bytes.data() + at, 4 * h.counts[i]);
    }
    at += 4 * h.counts[i];
  }
  if (!tokens_lie_below(text))
    return refuse("a token is not in its vocabulary");
  return text;
}

}  // namespace sluice
