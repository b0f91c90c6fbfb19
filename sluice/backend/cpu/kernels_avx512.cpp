// Built with AVX-512 flags; entered only where the machine has them.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/core/key.h"

namespace sluice::cpu {
namespace avx512 {
#include "sluice/backend/cpu/kernels_inl.h"

struct ZmmSums {
  __m512d sum = _mm512_setzero_pd();
  __m512d abs = _mm512_setzero_pd();
  __m512d sq = _mm512_setzero_pd();

  void add(const float* x) {
    const __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x));
    sum = _mm512_add_pd(sum, v);
    abs = _mm512_add_pd(abs, _mm512_abs_pd(v));
    sq = _mm512_add_pd(sq, _mm512_mul_pd(v, v));
  }
  void store(double* s, double* a, double* q) const {
    _mm512_storeu_pd(s, sum);
    _mm512_storeu_pd(a, abs);
    _mm512_storeu_pd(q, sq);
  }
};

struct Zmm {
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;
  using Sums = ZmmSums;
  static constexpr std::size_t kWidth = 16;
  static constexpr bool kHitWords = false;

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static I load_int(const std::uint32_t* p) { return _mm512_loadu_si512(p); }
  static void store_int(std::uint32_t* p, I x) { _mm512_storeu_si512(p, x); }
  static F broadcast(float x) { return _mm512_set1_ps(x); }
  static I broadcast_int(std::uint32_t x) {
    return _mm512_set1_epi32(static_cast<int>(x));
  }
  static I iota(std::uint32_t base) {
    return _mm512_add_epi32(broadcast_int(base),
                            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                              11, 12, 13, 14, 15));
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static I bits(F x) { return _mm512_castps_si512(x); }
  static I bit_and(I a, I b) { return _mm512_and_si512(a, b); }
  static I flip_clamp(I a, I flip) {
    return _mm512_max_epi32(_mm512_xor_si512(a, flip), _mm512_setzero_si512());
  }
  static I plus(I a, I b) { return _mm512_add_epi32(a, b); }
  static I gather(const std::uint32_t* p, I i) {
    return _mm512_i32gather_epi32(i, p, 4);
  }
  static F gather_float(const float* p, I i) {
    return _mm512_i32gather_ps(i, p, 4);
  }
  static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  static I to_int(F x) { return _mm512_cvttps_epi32(x); }
  static I times(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I minus(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I shift_right(I a, unsigned n) {
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128(static_cast<int>(n)));
  }
  static I add_where(I a, I b, M m) {
    return _mm512_mask_add_epi32(a, m, a, b);
  }
  static M wrapped(I a) { return _mm512_movepi32_mask(a); }
  static M ge(I a, I b) { return _mm512_cmpge_epu32_mask(a, b); }
  static M mask_and_not(M a, M b) { return _kandn_mask16(b, a); }
  static M mask_or(M a, M b) { return _kor_mask16(a, b); }
  static I count_up(I a, M m) {
    return _mm512_mask_add_epi32(a, m, a, _mm512_set1_epi32(1));
  }
  static bool any(M m) { return m != 0; }
  static bool any4(M a, M b, M c, M d) {
    return _kor_mask16(_kor_mask16(a, b), _kor_mask16(c, d)) != 0;
  }
  static std::size_t popcount(M m) {
    return static_cast<std::size_t>(__builtin_popcount(m));
  }
  static F zero_where(F x, M m) {
    return _mm512_maskz_mov_ps(_knot_mask16(m), x);
  }
  static F blend(F x, F y, M m) { return _mm512_mask_mov_ps(x, m, y); }
  // Compress in a register and store the whole vector: vpcompressd to memory
  // takes 13 times as long on Zen 4.
  static void compress_index(std::uint32_t* ip, I i, M m) {
    _mm512_storeu_si512(ip, _mm512_maskz_compress_epi32(m, i));
  }
  static void compress(std::uint32_t* ip, I i, float* vp, F v, M m) {
    _mm512_storeu_si512(ip, _mm512_maskz_compress_epi32(m, i));
    _mm512_storeu_ps(vp, _mm512_maskz_compress_ps(m, v));
  }
};
}  // namespace avx512

const Kernels* avx512_kernels() {
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("bmi2")) {
    return nullptr;
  }
  static const Kernels kTable = [] {
    Kernels table = avx512::table<avx512::Zmm>("avx512");
    if (avx2_kernels() != nullptr) table.merge = avx2_kernels()->merge;
    return table;
  }();
  return &kTable;
}

}  // namespace sluice::cpu
