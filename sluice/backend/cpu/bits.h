#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::cpu {

// Words of a message, which may stand at any address.
inline std::uint64_t load_word(const std::byte* words, std::size_t i) {
  std::uint64_t word = 0;
  std::memcpy(&word, words + 8 * i, 8);
  return word;
}
inline void store_word(std::byte* words, std::size_t i, std::uint64_t word) {
  std::memcpy(words + 8 * i, &word, 8);
}

constexpr std::size_t words_for(std::uint64_t bits) { return (bits + 63) / 64; }

// Appends numbers of 0 to 64 bits, lowest bit first. The caller has made room.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  void put(std::uint64_t value, unsigned bits) {
    word_ |= fill_ < 64 ? value << fill_ : 0;
    fill_ += bits;
    if (fill_ >= 64) {
      store_word(out_, 0, word_);
      out_ += 8;
      fill_ -= 64;
      // What did not fit; a shift by 64 would be undefined.
      word_ = fill_ > 0 ? value >> (bits - fill_) : 0;
    }
  }
  // Writes the last word, if any; returns the end.
  std::byte* finish() {
    if (fill_ > 0) {
      store_word(out_, 0, word_);
      out_ += 8;
    }
    return out_;
  }

 private:
  std::byte* out_;
  std::uint64_t word_ = 0;
  unsigned fill_ = 0;
};

// Reads them back from words that the caller has counted.
class BitReader {
 public:
  explicit BitReader(const std::byte* in) : in_(in) {}

  std::uint64_t get(unsigned bits) {
    if (bits == 0) return 0;
    const std::size_t word = position_ / 64;
    const unsigned shift = position_ % 64;
    std::uint64_t value = load_word(in_, word) >> shift;
    if (shift + bits > 64) value |= load_word(in_, word + 1) << (64 - shift);
    position_ += bits;
    return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
  }

 private:
  const std::byte* in_;
  std::uint64_t position_ = 0;
};

}  // namespace sluice::cpu
