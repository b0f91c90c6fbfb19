#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The tokens of a corpus, ready to train on.
struct PreparedText {
  std::array<std::vector<std::int32_t>, 3> splits;  // train, valid, test
  // One per token; empty for tokenisers that have files (or need none).
  std::vector<std::string> words;
  std::int64_t vocabulary = 0;
  // Words that the vocabulary does not have: made <unk>, or left out where it
  // has no such word.
  std::int64_t unknown = 0;
  std::int64_t dropped = 0;
  friend bool operator==(const PreparedText&, const PreparedText&) = default;
};

// A file of it: magic, version, key, sizes, words, tokens, checksum. Bytes are
// little endian; docs/text.md has the form.
std::string pack_text(const PreparedText& text, std::uint64_t key);

// The same read back; none, and why in `problem`, if it is damaged, cut, or not
// of this key. Never throws for its content, nor allocates beyond its size.
std::optional<PreparedText> unpack_text(std::string_view bytes,
                                        std::uint64_t key,
                                        std::string& problem);

// Where prepared texts are kept: in `folder` if it can be written to, else in
// $XDG_CACHE_HOME/sluice or ~/.cache/sluice, which are made if need be. Empty
// if none can be written to.
std::string cache_folder(const std::string& folder);

// The file for `name` and `key`, wherever it is: none if it is not there or not
// sound, in which case it is as if it were not there.
std::optional<PreparedText> load_cached(const std::string& folder,
                                        std::string_view name,
                                        std::uint64_t key);
// Writes it, whole or not at all; several processes may at once. A cache that
// cannot be written is no error: the text is prepared again next time. Returns
// the path, or nothing.
std::string store_cached(const std::string& folder, std::string_view name,
                         std::uint64_t key, const PreparedText& text);

}  // namespace sluice
