#include "sluice/text/byte_alphabet.h"

#include "sluice/text/utf8.h"

namespace sluice {
namespace {

constexpr bool prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  char32_t next = 0x100;
  std::size_t place = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters_[byte] = prints(byte) ? byte : next++;
    if (prints(byte)) order_[place++] = static_cast<unsigned char>(byte);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!prints(byte)) order_[place++] = static_cast<unsigned char>(byte);
  }
  bytes_.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes_[characters_[byte]] = static_cast<std::int16_t>(byte);
  }
}

std::string ByteAlphabet::written(std::string_view bytes) const {
  std::string text;
  for (const char c : bytes) {
    append_utf8(text, characters_[static_cast<unsigned char>(c)]);
  }
  return text;
}

std::optional<std::string> ByteAlphabet::read(std::string_view written) const {
  std::string bytes;
  for (std::size_t i = 0; i < written.size();) {
    const CodePoint c = code_point_at(written, i);
    if (c.bytes == 0 || c.value >= kEnd || bytes_[c.value] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(bytes_[c.value]);
    i += c.bytes;
  }
  return bytes;
}

}  // namespace sluice
