#include "sluice/text/byte_tokenizer.h"

#include "sluice/core/error.h"

namespace sluice {

void ByteTokenizer::encode(std::string_view text,
                           std::vector<std::int32_t>& out) {
  const std::size_t before = out.size();
  out.resize(before + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    out[before + i] = static_cast<unsigned char>(text[i]);
  }
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token <= kEnd, "[byte] a token must be at most ",
            kEnd, ", got ", token);
    if (token != kEnd) text += static_cast<char>(token);
  }
  return text;
}

}  // namespace sluice
