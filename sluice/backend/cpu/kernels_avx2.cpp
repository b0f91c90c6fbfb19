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
}  // namespace avx2

const Kernels* avx2_kernels() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2")) {
    return nullptr;
  }
  static constexpr Kernels kTable = avx2::table<avx2::Ymm>("avx2");
  return &kTable;
}

}  // namespace sluice::cpu
