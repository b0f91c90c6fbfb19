// Built with AVX2 flags; entered only where the machine has them.
#include <immintrin.h>

#include <cstring>

#include "sluice/backend/cpu/wire_kernels.h"

namespace sluice::cpu {
namespace {
#include "sluice/backend/cpu/wire_kernels_inl.h"

__m256i load8(const std::uint32_t* x) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
}
void store8(std::uint32_t* x, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), v);
}
__m128i count(unsigned bits) {
  return _mm_cvtsi32_si128(static_cast<int>(bits));
}

std::uint64_t or_of(__m256i v) {
  const __m128i half =
      _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return static_cast<std::uint64_t>(
      _mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half))));
}

// Eight at a time: neighbours are joined to 64 bits at most, which are put.
void fast_pack(const std::uint32_t* x, std::size_t n, std::uint32_t base,
               unsigned bits, BitWriter& out) {
  std::size_t i = 0;
  if (bits > 0 && bits <= 16) {
    BitWriter to = out;
    const __m256i bases = _mm256_set1_epi32(static_cast<int>(base));
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    const __m256i even = _mm256_set1_epi64x(0xffffffff);
    for (; i + 8 <= n; i += 8) {
      const __m256i v =
          _mm256_and_si256(_mm256_sub_epi32(load8(x + i), bases), mask);
      const __m256i two = _mm256_or_si256(
          _mm256_and_si256(v, even), _mm256_srl_epi64(v, count(32 - bits)));
      const __m256i four = _mm256_or_si256(
          two,
          _mm256_sll_epi64(_mm256_unpackhi_epi64(two, two), count(2 * bits)));
      to.put(static_cast<std::uint64_t>(_mm256_extract_epi64(four, 0)),
             4 * bits);
      to.put(static_cast<std::uint64_t>(_mm256_extract_epi64(four, 2)),
             4 * bits);
    }
    out = to;
  }
  pack(x + i, n - i, base, bits, out);
}

// Four from each of two loads.
void fast_unpack(const std::byte* in, const std::byte* end, std::uint64_t at,
                 std::size_t n, unsigned bits, std::uint32_t* out) {
  std::size_t i = 0;
  if (bits <= 14) {
    const auto bytes = static_cast<std::uint64_t>(end - in);
    const auto window = [&](std::uint64_t bit) {
      std::uint64_t w = 0;
      std::memcpy(&w, in + bit / 8, 8);
      return _mm256_set1_epi64x(static_cast<long long>(w >> (bit % 8)));
    };
    const __m256i mask = _mm256_set1_epi32((1 << bits) - 1);
    const __m256i shifts = _mm256_setr_epi64x(0, bits, 2 * bits, 3 * bits);
    for (; i + 8 <= n && (at + 4 * bits) / 8 + 8 <= bytes;
         i += 8, at += 8 * bits) {
      const __m256i a = _mm256_srlv_epi64(window(at), shifts);
      const __m256i b = _mm256_srlv_epi64(window(at + 4 * bits), shifts);
      const __m256i mixed = _mm256_castps_si256(
          _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b),
                            _MM_SHUFFLE(2, 0, 2, 0)));
      store8(out + i, _mm256_and_si256(_mm256_permute4x64_epi64(
                                           mixed, _MM_SHUFFLE(3, 1, 2, 0)),
                                       mask));
    }
  }
  unpack(in, end, at, n - i, bits, out + i);
}

// Eight ones at a time, which fall into the word at hand or the next one.
// Further ones, which are rare, go one by one.
void fast_write_high(const std::uint32_t* x, std::size_t n, std::uint32_t base,
                     unsigned low, std::byte* out, std::size_t words) {
  HighWriter to{out};
  const __m256i bases = _mm256_set1_epi32(static_cast<int>(base));
  const __m256i one = _mm256_set1_epi64x(1);
  const __m256i next = _mm256_set1_epi64x(64);
  const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto position = [&](std::size_t i) {
    return (std::uint64_t{x[i] - base} >> low) + i;
  };
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const std::uint64_t last = position(i + 7) / 64;
    if (last > to.at + 1) {
      for (std::size_t j = i; j < i + 8; ++j) to.put(position(j));
      continue;
    }
    // From the word at hand, modulo 2^32 as the difference is small.
    const __m256i first = _mm256_set1_epi32(
        static_cast<int>(static_cast<std::uint32_t>(i - 64 * to.at)));
    const __m256i at = _mm256_add_epi32(
        _mm256_srl_epi32(_mm256_sub_epi32(load8(x + i), bases), count(low)),
        _mm256_add_epi32(first, iota));
    const __m256i a = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(at));
    const __m256i b = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(at, 1));
    // Shifts by 64 and more, or less than 0, give 0.
    to.word |= or_of(
        _mm256_or_si256(_mm256_sllv_epi64(one, a), _mm256_sllv_epi64(one, b)));
    const std::uint64_t rest = or_of(
        _mm256_or_si256(_mm256_sllv_epi64(one, _mm256_sub_epi64(a, next)),
                        _mm256_sllv_epi64(one, _mm256_sub_epi64(b, next))));
    store_word(out, to.at, to.word);
    to.word = last == to.at ? to.word : rest;
    to.at = last;
  }
  for (; i < n; ++i) to.put(position(i));
  while (to.at < words) to.flush();
}

// Of each byte: where its ones stand, less how many are before them.
struct OnesTable {
  alignas(64) std::uint8_t place[256][8];
  constexpr OnesTable() : place() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      unsigned ones = 0;
      for (unsigned bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1U) == 0) continue;
        place[byte][ones] = static_cast<std::uint8_t>(bit - ones);
        ++ones;
      }
    }
  }
};
constexpr OnesTable kOnes;

// A byte of ones at a time: eight slots are written, and as many count as there
// are ones. The low parts wait in a buffer, since x is written ahead.
bool fast_read_elias_fano(const EliasFanoBits& in, std::uint32_t base,
                          std::uint32_t* x, std::size_t n,
                          std::uint64_t& highest) {
  constexpr std::size_t kWord = 64 + 8;  // slots that a word may write
  constexpr std::size_t kSome = 512 + kWord;
  alignas(64) std::uint32_t lows[kSome];
  std::size_t ready = 0;  // entries whose low parts are there
  std::size_t from = 0;   // and where they start
  const __m256i bases = _mm256_set1_epi32(static_cast<int>(base));
  std::size_t i = 0;
  std::size_t w = 0;
  for (; w < in.words && n - i >= kWord; ++w) {
    if (ready - i < kWord) {
      from = i;
      ready = i + (n - i < kSome ? n - i : kSome);
      fast_unpack(in.lows, in.end, i * in.low, ready - i, in.low, lows);
    }
    std::uint64_t word = load_word(in.highs, w);
    for (std::uint64_t bit = 64 * w; word != 0; bit += 8, word >>= 8) {
      const auto byte = static_cast<unsigned>(word & 255U);
      const __m256i place = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kOnes.place[byte])));
      const __m256i high = _mm256_add_epi32(
          place, _mm256_set1_epi32(
                     static_cast<int>(static_cast<std::uint32_t>(bit - i))));
      store8(x + i, _mm256_add_epi32(
                        _mm256_sll_epi32(high, count(in.low)),
                        _mm256_add_epi32(bases, load8(lows + (i - from)))));
      i += static_cast<std::size_t>(__builtin_popcount(byte));
    }
  }
  return read_elias_fano_from(in, base, x, i, n, w, highest);
}

bool fast_sort_small(std::uint16_t* keys, std::size_t n, std::uint32_t base,
                     std::uint32_t* x) {
  const auto count_below = [](const std::uint16_t* k, std::size_t m,
                              std::uint16_t key) {
    const __m256i one = _mm256_set1_epi16(static_cast<short>(key));
    const auto above = [&](std::size_t j) {
      return _mm256_cmpgt_epi16(
          one, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(k + j)));
    };
    std::size_t below = 0;
    for (std::size_t j = 0; j < m; j += 32) {
      below += static_cast<std::size_t>(
          __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(
              _mm256_packs_epi16(above(j), above(j + 16))))));
    }
    return below;
  };
  return sort_by_rank(keys, n, base, x, count_below);
}

constexpr WireKernels fast_table() {
  WireKernels table = kTable;
  table.pack = fast_pack;
  table.unpack = fast_unpack;
  table.write_high = fast_write_high;
  table.read_elias_fano = fast_read_elias_fano;
  table.sort_small = fast_sort_small;
  return table;
}
}  // namespace

const WireKernels* avx2_wire_kernels() {
  static constexpr WireKernels kFast = fast_table();
  const bool runs =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
  return runs ? &kFast : nullptr;
}

}  // namespace sluice::cpu
