// Built with AVX2 flags; entered only where the machine has them.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace avx2 {
#include "sluice/backend/cpu/kernels_inl.h"

// For each 8-bit mask, the lanes that are set, in order: AVX2 has no compress,
// so a permutation by this table stands in for it.
struct CompressTable {
  alignas(64) std::uint32_t lane[256][8];
  constexpr CompressTable() : lane() {
    for (unsigned mask = 0; mask < 256; ++mask) {
      unsigned out = 0;
      for (unsigned bit = 0; bit < 8; ++bit) {
        if ((mask >> bit & 1U) != 0) lane[mask][out++] = bit;
      }
      while (out < 8) lane[mask][out++] = 0;
    }
  }
};
constexpr CompressTable kCompress;

struct YmmSums {
  __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  __m256d abs[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  __m256d sq[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};

  void add(const float* x) {
    for (int half = 0; half < 2; ++half) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + 4 * half));
      const __m256d a = _mm256_andnot_pd(_mm256_set1_pd(-0.0), v);
      sum[half] = _mm256_add_pd(sum[half], v);
      abs[half] = _mm256_add_pd(abs[half], a);
      sq[half] = _mm256_add_pd(sq[half], _mm256_mul_pd(v, v));
    }
  }
  void store(double* s, double* a, double* q) const {
    for (int half = 0; half < 2; ++half) {
      _mm256_storeu_pd(s + 4 * half, sum[half]);
      _mm256_storeu_pd(a + 4 * half, abs[half]);
      _mm256_storeu_pd(q + 4 * half, sq[half]);
    }
  }
};

struct Ymm {
  using F = __m256;
  using I = __m256i;
  using M = __m256i;
  using Sums = YmmSums;
  static constexpr std::size_t kWidth = 8;
  static constexpr bool kHitWords = true;

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static I load_int(const std::uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void store_int(std::uint32_t* p, I x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
  }
  static F broadcast(float x) { return _mm256_set1_ps(x); }
  static I broadcast_int(std::uint32_t x) {
    return _mm256_set1_epi32(static_cast<int>(x));
  }
  static I iota(std::uint32_t base) {
    return _mm256_add_epi32(broadcast_int(base),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static I bits(F x) { return _mm256_castps_si256(x); }
  static I bit_and(I a, I b) { return _mm256_and_si256(a, b); }
  static I flip_clamp(I a, I flip) {
    return _mm256_max_epi32(_mm256_xor_si256(a, flip), _mm256_setzero_si256());
  }
  static I plus(I a, I b) { return _mm256_add_epi32(a, b); }
  static I gather(const std::uint32_t* p, I i) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(p), i, 4);
  }
  static F gather_float(const float* p, I i) {
    return _mm256_i32gather_ps(p, i, 4);
  }
  static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  static I to_int(F x) { return _mm256_cvttps_epi32(x); }
  static I times(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I minus(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I shift_right(I a, unsigned n) {
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128(static_cast<int>(n)));
  }
  static I add_where(I a, I b, M m) {
    return _mm256_add_epi32(a, _mm256_and_si256(b, m));
  }
  static M wrapped(I a) { return _mm256_srai_epi32(a, 31); }
  // Keys and thresholds have no sign bit, so the signed compare will do.
  static M ge(I a, I b) {
    return _mm256_cmpgt_epi32(a, _mm256_sub_epi32(b, _mm256_set1_epi32(1)));
  }
  static M mask_and_not(M a, M b) { return _mm256_andnot_si256(b, a); }
  static M mask_or(M a, M b) { return _mm256_or_si256(a, b); }
  static I count_up(I a, M m) { return _mm256_sub_epi32(a, m); }
  static unsigned lanes(M m) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(m)));
  }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  // A bit per lane of four masks. Packing interleaves the halves.
  static std::uint32_t bits_of(const M (&m)[4]) {
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(m[0], m[1]),
                                             _mm256_packs_epi32(m[2], m[3]));
    return static_cast<std::uint32_t>(
        _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(
            bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))));
  }
  static bool any(M m) { return _mm256_testz_si256(m, m) == 0; }
  static bool any4(M a, M b, M c, M d) {
    return any(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
  }
  static std::size_t popcount(M m) {
    return static_cast<std::size_t>(__builtin_popcount(lanes(m)));
  }
  static F zero_where(F x, M m) {
    return _mm256_andnot_ps(_mm256_castsi256_ps(m), x);
  }
  static F blend(F x, F y, M m) {
    return _mm256_blendv_ps(x, y, _mm256_castsi256_ps(m));
  }
  static void compress_index(std::uint32_t* ip, I i, M m) {
    const I order = load_int(kCompress.lane[lanes(m)]);
    store_int(ip, _mm256_permutevar8x32_epi32(i, order));
  }
  static void compress(std::uint32_t* ip, I i, float* vp, F v, M m) {
    const I order = load_int(kCompress.lane[lanes(m)]);
    store_int(ip, _mm256_permutevar8x32_epi32(i, order));
    store(vp, _mm256_permutevar8x32_ps(v, order));
  }
};

// A network that merges eight and eight, as long as indices leave room for the
// lane of their value: both are one key, so that values move but once.
constexpr unsigned kLabel = 4;

struct Network {
  __m256i keys;  // the eight largest so far
  __m256 values;

  static __m256i keys_of(__m256i indices, std::uint32_t first) {
    return _mm256_or_si256(_mm256_slli_epi32(indices, kLabel),
                           Ymm::iota(first));
  }
  // Takes eight more; gives the indices and values of the eight smallest.
  void exchange(const std::uint32_t* indices, const float* from, __m256i& x,
                __m256& v) {
    const __m256 more = Ymm::load(from);
    const __m256i other =
        _mm256_permutevar8x32_epi32(keys_of(Ymm::load_int(indices), 8),
                                    _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    __m256i lo = _mm256_min_epu32(keys, other);
    __m256i hi = _mm256_max_epu32(keys, other);
    // Both are bitonic: order what is 4, 2 and 1 apart in either.
    const auto order = [&](__m256i a, __m256i b) {
      lo = _mm256_min_epu32(a, b);
      hi = _mm256_max_epu32(a, b);
    };
    order(_mm256_permute2x128_si256(lo, hi, 0x20),
          _mm256_permute2x128_si256(lo, hi, 0x31));
    order(_mm256_unpacklo_epi64(lo, hi), _mm256_unpackhi_epi64(lo, hi));
    const __m256 a = _mm256_castsi256_ps(lo);
    const __m256 b = _mm256_castsi256_ps(hi);
    order(Ymm::bits(_mm256_shuffle_ps(a, b, 0x88)),
          Ymm::bits(_mm256_shuffle_ps(a, b, 0xdd)));
    const __m256i even = _mm256_unpacklo_epi32(lo, hi);
    const __m256i odd = _mm256_unpackhi_epi32(lo, hi);
    lo = _mm256_unpacklo_epi64(even, odd);
    hi = _mm256_unpackhi_epi64(even, odd);
    const __m256i low = _mm256_permute2x128_si256(lo, hi, 0x20);
    const __m256i high = _mm256_permute2x128_si256(lo, hi, 0x31);
    const auto values_at = [&](__m256i key) {
      return Ymm::blend(_mm256_permutevar8x32_ps(values, key),
                        _mm256_permutevar8x32_ps(more, key),
                        _mm256_slli_epi32(key, 32 - kLabel));
    };
    x = _mm256_srli_epi32(low, kLabel);
    v = values_at(low);
    values = values_at(high);
    keys = keys_of(_mm256_srli_epi32(high, kLabel), 0);
  }
};

std::size_t merge_by_network(const Candidates& a, const Candidates& b,
                             const Candidates& to) {
  constexpr std::size_t kWidth = Ymm::kWidth;
  if (a.room < kWidth || b.room < kWidth ||
      (a.indices[a.room - 1] | b.indices[b.room - 1]) >> (32 - kLabel) != 0) {
    return merge(a, b, to);
  }
  const __m256i turn = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
  Network net = {Network::keys_of(Ymm::load_int(a.indices), 0),
                 Ymm::load(a.values)};
  std::size_t i = kWidth;
  std::size_t j = 0;
  std::size_t o = 0;
  __m256i last = Ymm::broadcast_int(~0U);  // index, in the first lane
  while (i + kWidth <= a.room && j + kWidth <= b.room) {
    const bool from_a = a.indices[i] < b.indices[j];
    __m256i x;
    __m256 v;
    net.exchange(from_a ? a.indices + i : b.indices + j,
                 from_a ? a.values + i : b.values + j, x, v);
    i += from_a ? kWidth : 0;
    j += from_a ? 0 : kWidth;
    const __m256i turned = _mm256_permutevar8x32_epi32(x, turn);
    const __m256i same =
        _mm256_cmpeq_epi32(x, _mm256_blend_epi32(turned, last, 1));
    last = turned;
    const unsigned pairs = Ymm::lanes(same);
    if (pairs == 0) {
      Ymm::store_int(to.indices + o, x);
      Ymm::store(to.values + o, v);
      o += kWidth;
      continue;
    }
    // An index twice in a row: its second value takes in the first, which may
    // have been written already.
    const __m256 before =
        _mm256_blend_ps(_mm256_permutevar8x32_ps(v, turn),
                        Ymm::broadcast(o > 0 ? to.values[o - 1] : 0.0F), 1);
    v = Ymm::blend(v, _mm256_add_ps(before, v), same);
    o -= pairs & 1U;
    const unsigned keep = ~(pairs >> 1) & 255U;
    const __m256i lanes = Ymm::load_int(kCompress.lane[keep]);
    Ymm::store_int(to.indices + o, _mm256_permutevar8x32_epi32(x, lanes));
    Ymm::store(to.values + o, _mm256_permutevar8x32_ps(v, lanes));
    o += static_cast<std::size_t>(__builtin_popcount(keep));
  }
  // The rest, from the last index that was written on, without the network: it
  // may hold the second half of a pair.
  i = j = 0;
  if (o > 0) {
    const std::uint32_t end = to.indices[--o];
    i = first_from(a.indices, a.room, end);
    j = first_from(b.indices, b.room, end);
  }
  const auto rest = [](const Candidates& list, std::size_t from) {
    return Candidates{list.indices + from, list.values + from,
                      list.room - from};
  };
  return o + merge(rest(a, i), rest(b, j), rest(to, o));
}
}  // namespace avx2

const Kernels* avx2_kernels() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) {
    return nullptr;
  }
  static constexpr Kernels kTable = [] {
    Kernels table = avx2::table<avx2::Ymm>("avx2");
    table.merge = avx2::merge_by_network;
    return table;
  }();
  return &kTable;
}

}  // namespace sluice::cpu
