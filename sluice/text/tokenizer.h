#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/core/registry.h"

namespace sluice {

// Tokens that mean something; absent where a tokeniser has none.
struct SpecialTokens {
  std::optional<std::int32_t> unknown{};
  std::optional<std::int32_t> end{};  // of a line (word) or a text
  std::optional<std::int32_t> pad{};
  std::optional<std::int32_t> classify{};  // [CLS]
  std::optional<std::int32_t> separate{};  // [SEP]
  std::optional<std::int32_t> mask{};      // [MASK]
};

// Text into numbers below size(), and back.
//
// Remembers words it has seen, so it is not thread-safe: one per thread.
class Tokenizer {
 public:
  static constexpr std::string_view kKind = "tokenizer";

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the tokens of `text`. Throws std::invalid_argument, with the byte,
  // where it is no UTF-8 (but for `byte`, which takes anything).
  virtual void encode(std::string_view text,
                      std::vector<std::int32_t>& out) = 0;
  std::vector<std::int32_t> encode(std::string_view text) {
    std::vector<std::int32_t> out;
    encode(text, out);
    return out;
  }

  // Throws std::invalid_argument for a number not below size().
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  virtual std::int64_t size() const = 0;
  const SpecialTokens& special() const { return special_; }

 protected:
  Tokenizer() = default;
  void set_special(const SpecialTokens& special) { special_ = special; }

 private:
  SpecialTokens special_;
};

// Where the files of a tokeniser are.
struct TokenizerPlace {
  std::string folder;
};

using TokenizerEntry = RegistryEntry<Tokenizer, const TokenizerPlace&>;

// Every tokeniser there is: word, byte, bpe, wordpiece.
std::span<const TokenizerEntry> tokenizers();

// From "name", "name:key=value,..." or a JSON object; see parse_spec. Throws
// std::runtime_error, saying which files it wants, if they are not there or not
// what they should be.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view text,
                                          const TokenizerPlace& place = {});

// Throws std::invalid_argument: what is no UTF-8, and where.
[[noreturn]] void fail_utf8(std::string_view owner, std::size_t byte);

}  // namespace sluice
