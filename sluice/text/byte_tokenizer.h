#pragma once

#include "sluice/text/tokenizer.h"

namespace sluice {

// Every byte is its own token; 256 ends a text (and is not written by encode).
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "byte";
  static constexpr std::string_view kSummary =
      "bytes, 256 of them and an end; needs no files and takes anything";
  struct Params {};
  static ParamList list(Params&) { return {}; }
  static constexpr std::int32_t kEnd = 256;

  ByteTokenizer() { set_special({.end = kEnd}); }
  ByteTokenizer(const Params&, const TokenizerPlace&) : ByteTokenizer() {}

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& out) override;
  // An end is nothing.
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t size() const override { return kEnd + 1; }
};

}  // namespace sluice
