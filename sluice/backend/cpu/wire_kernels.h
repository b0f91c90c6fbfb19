#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "sluice/core/wire.h"
#include "sluice/core/wire_checksum.h"

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

// The two bit strings of Elias-Fano in a message that ends at `end`.
struct EliasFanoBits {
  const std::byte* lows;
  const std::byte* highs;
  std::size_t words;  // of highs
  unsigned low;       // bits of a low part
  const std::byte* end;
};

// The inner loops of messages, one table per instruction set; all of them give
// the same bytes and indices.
struct WireKernels {
  static constexpr std::size_t kSmall = 128;

  // Appends (x[i] - base) mod 2^bits for n numbers; bits <= 32.
  void (*pack)(const std::uint32_t* x, std::size_t n, std::uint32_t base,
               unsigned bits, BitWriter& out);
  // The numbers back, from bit `at` of the words at `in`. Reads nothing at or
  // behind `end`, where more bits than there are would be needed.
  void (*unpack)(const std::byte* in, const std::byte* end, std::uint64_t at,
                 std::size_t n, unsigned bits, std::uint32_t* out);
  // Elias-Fano's bit string: a one at ((x[i] - base) >> low) + i.
  void (*write_high)(const std::uint32_t* x, std::size_t n, std::uint32_t base,
                     unsigned low, std::byte* out, std::size_t words);
  // The indices back from both bit strings, modulo 2^32. False
  // unless there are exactly n ones; `highest` is the high part of the last.
  bool (*read_elias_fano)(const EliasFanoBits& in, std::uint32_t base,
                          std::uint32_t* x, std::size_t n,
                          std::uint64_t& highest);
  // Writes the positions of the ones, plus base; false unless they are n.
  bool (*read_bitmap)(const std::byte* in, std::size_t words,
                      std::uint32_t base, std::uint32_t* x, std::size_t n);
  // Writes n <= kSmall different keys below 2^15 in order, each plus base;
  // false if some are equal. Up to kSmall keys are read and changed.
  bool (*sort_small)(std::uint16_t* keys, std::size_t n, std::uint32_t base,
                     std::uint32_t* x);
  bool (*below)(const std::uint32_t* x, std::size_t n, std::uint64_t limit);
  bool (*ascends)(const std::uint32_t* x, std::size_t n);
  // The OR of x[i] - x[i - 1] - 1.
  std::uint32_t (*gaps)(const std::uint32_t* x, std::size_t n);
  // Copies n floats; false if one is not finite.
  bool (*copy_finite)(const std::byte* in, std::size_t n, float* out);
  // Whether all n floats have the bits of the first.
  bool (*uniform)(const float* x, std::size_t n);
  // Adds the words [first, last) of a message.
  void (*sum)(const std::byte* message, std::size_t first, std::size_t last,
              WireChecksum& out);
};

// Those for kernels of this name; see CpuOptions::isa.
const WireKernels& wire_kernels(std::string_view isa);

// Null where the compiler could not build it or the machine cannot run it.
const WireKernels* avx2_wire_kernels();

}  // namespace sluice::cpu
