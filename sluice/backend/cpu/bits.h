#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Always inlined: kernels for several instruction sets include it, and a copy
// of a function compiled for one of them must not end up in another.
#define SLUICE_INLINE [[gnu::always_inline]] inline

namespace sluice::cpu {

// Words of a message, which may stand at any address.
SLUICE_INLINE std::uint64_t load_word(const std::byte* words, std::size_t i) {
  std::uint64_t word = 0;
  std::memcpy(&word, words + 8 * i, 8);
  return word;
}
SLUICE_INLINE void store_word(std::byte* words, std::size_t i,
                              std::uint64_t word) {
  std::memcpy(words + 8 * i, &word, 8);
}

constexpr std::size_t words_for(std::uint64_t bits) { return (bits + 63) / 64; }

// Appends numbers of 0 to 64 bits, lowest bit first. The caller has made room.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  SLUICE_INLINE void put(std::uint64_t value, unsigned bits) {
    word_ |= value << fill_;
    fill_ += bits;
    if (fill_ >= 64) {
      store_word(out_, 0, word_);
      out_ += 8;
      fill_ -= 64;
      // What did not fit; a shift by 64 would be undefined.
      word_ = fill_ > 0 ? value >> (bits - fill_) : 0;
    }
  }
  // Writes the last word, if any.
  void finish() {
    if (fill_ > 0) store_word(out_, 0, word_);
  }

 private:
  std::byte* out_;
  std::uint64_t word_ = 0;
  unsigned fill_ = 0;  // below 64
};

}  // namespace sluice::cpu
