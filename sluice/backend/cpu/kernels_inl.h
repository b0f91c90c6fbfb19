// The kernels of kernels.h, written once over a vector type V. Included by one
// source per instruction set, inside a namespace of its own: a function shared
// between them could be merged by the linker into the version that the machine
// cannot run. For the same reason nothing here calls the standard library.

enum class Mode { kAdd, kScaledAdd, kMemory, kGradient };

// Sums over eight lanes whatever the vector width, so that all versions round
// alike.
struct Lanes {
  double sum[8] = {};
  double abs[8] = {};
  double sq[8] = {};

  void add(const float* x) {
    for (std::size_t l = 0; l < 8; ++l) {
      const double v = static_cast<double>(x[l]);
      sum[l] += v;
      abs[l] += v < 0 ? -v : v;
      sq[l] += v * v;
    }
  }
  void store(double* s, double* a, double* q) const {
    for (std::size_t l = 0; l < 8; ++l) {
      s[l] = sum[l];
      a[l] = abs[l];
      q[l] = sq[l];
    }
  }
};

// One lane; the tails of the vector loops, and the whole portable version.
struct Scalar {
  using F = float;
  using I = std::uint32_t;
  using M = bool;
  using Sums = Lanes;
  static constexpr std::size_t kWidth = 1;
  static constexpr bool kHitWords = false;  // see record_hits

  static F load(const float* p) { return *p; }
  static void store(float* p, F x) { *p = x; }
  static I load_int(const std::uint32_t* p) { return *p; }
  static void store_int(std::uint32_t* p, I x) { *p = x; }
  static F broadcast(float x) { return x; }
  static I broadcast_int(std::uint32_t x) { return x; }
  static I iota(std::uint32_t base) { return base; }
  static F add(F a, F b) { return a + b; }
  static F mul(F a, F b) { return a * b; }
  static I bits(F x) { return __builtin_bit_cast(std::uint32_t, x); }
  static I bit_and(I a, I b) { return a & b; }
  static I flip_clamp(I a, I flip) {
    const auto x = static_cast<std::int32_t>(a ^ flip);
    return x < 0 ? 0U : static_cast<std::uint32_t>(x);
  }
  static I plus(I a, I b) { return a + b; }
  static M ge(I a, I b) { return a >= b; }
  static I gather(const std::uint32_t* p, I i) { return p[i]; }
  static F gather_float(const float* p, I i) { return p[i]; }
  static F to_float(I a) { return static_cast<float>(a); }
  static I to_int(F x) { return static_cast<std::uint32_t>(x); }
  static I times(I a, I b) { return a * b; }
  static I minus(I a, I b) { return a - b; }
  static I shift_right(I a, unsigned n) { return a >> n; }
  static I add_where(I a, I b, M m) { return m ? a + b : a; }
  static M wrapped(I a) { return a >> 31 != 0; }
  static void compress_index(std::uint32_t* ip, I i, M m) {
    if (m) *ip = i;
  }
  static M mask_and_not(M a, M b) { return a && !b; }
  static M mask_or(M a, M b) { return a || b; }
  static I count_up(I a, M m) { return a + (m ? 1U : 0U); }
  static bool any(M m) { return m; }
  static bool any4(M a, M b, M c, M d) { return a || b || c || d; }
  static std::size_t popcount(M m) { return m ? 1 : 0; }
  static F zero_where(F x, M m) { return m ? 0.0F : x; }
  static F blend(F x, F y, M m) { return m ? y : x; }
  static void compress(std::uint32_t* ip, I i, float* vp, F v, M m) {
    if (m) {
      *ip = i;
      *vp = v;
    }
  }
};

template <class V, Mode kMode>
inline __attribute__((always_inline)) typename V::F accumulated(
    const Source& s, std::size_t i, typename V::F& old) {
  if constexpr (kMode == Mode::kMemory) {
    old = V::load(s.memory + i);
    return old;
  } else if constexpr (kMode == Mode::kGradient) {
    old = V::broadcast(0.0F);
    return V::mul(V::load(s.gradient + i), V::broadcast(s.gamma));
  } else if constexpr (kMode == Mode::kAdd) {
    old = V::load(s.memory + i);
    return V::add(old, V::load(s.gradient + i));
  } else {
    old = V::load(s.memory + i);
    return V::add(V::mul(old, V::broadcast(s.beta)),
                  V::mul(V::load(s.gradient + i), V::broadcast(s.gamma)));
  }
}

template <class V>
inline __attribute__((always_inline)) typename V::I key_of(typename V::F acc) {
  return V::bit_and(V::bits(acc), V::broadcast_int(kMagnitudeMask));
}

// The key that takes part in the selection: |acc|, or acc (-acc) where only one
// sign does.
template <class V, bool kSigned>
inline __attribute__((always_inline)) typename V::I ranked_key(
    typename V::F acc, typename V::I key, std::uint32_t flip) {
  if constexpr (kSigned) {
    return V::flip_clamp(V::bits(acc), V::broadcast_int(flip));
  } else {
    return key;
  }
}

inline std::uint32_t sign_flip(int sign) { return sign < 0 ? 0x80000000U : 0; }

template <class V, Mode kMode>
inline __attribute__((always_inline)) void keep(const Source& s, std::size_t i,
                                                typename V::F acc) {
  if constexpr (kMode == Mode::kAdd || kMode == Mode::kScaledAdd) {
    V::store(s.memory + i, acc);
  }
}

// One vector with its hits recorded.
template <class V, Mode kMode, bool kSigned>
inline __attribute__((always_inline)) void record(
    const StreamArgs& a, std::size_t i, std::uint32_t rec, std::uint32_t hi,
    std::uint32_t flip, typename V::I index, StreamResult& out) {
  typename V::F old;
  typename V::F acc = accumulated<V, kMode>(a.source, i, old);
  const typename V::I key = key_of<V>(acc);
  const typename V::I ranked = ranked_key<V, kSigned>(acc, key, flip);
  typename V::M hit = V::ge(ranked, V::broadcast_int(rec));
  typename V::M high = V::ge(ranked, V::broadcast_int(hi));
  const typename V::M bad = V::ge(key, V::broadcast_int(kInfKey));
  V::compress(a.out.indices + out.recorded, index, a.out.values + out.recorded,
              acc, V::mask_and_not(hit, bad));
  if (__builtin_expect(V::any(bad), 0)) {
    out.nonfinite += V::popcount(bad);
    hit = V::mask_and_not(hit, bad);
    high = V::mask_and_not(high, bad);
    acc = V::blend(acc, old, bad);
  }
  out.recorded += V::popcount(hit);
  if constexpr (kMode == Mode::kMemory) {
    if (V::any(high)) V::store(a.source.memory + i, V::zero_where(acc, high));
  } else {
    keep<V, kMode>(a.source, i, V::zero_where(acc, high));
  }
  out.hi += V::popcount(high);
}

// Records the hits of a word, bit b being element i + b, whose acc stands at
// x[b]. The first is written before anyone knows whether there is one, since
// about one word in three has a hit and a branch would often be mispredicted;
// element i is then rewritten as it is.
template <Mode kMode, bool kSigned>
inline __attribute__((always_inline)) void record_hits(
    const StreamArgs& a, std::size_t i, std::uint32_t word, const float* x,
    std::uint32_t hi, std::uint32_t flip, StreamResult& out) {
  const auto one = [&](std::uint32_t b, std::uint32_t hit) {
    const float acc = x[b];
    a.out.indices[out.recorded] = a.base + static_cast<std::uint32_t>(i) + b;
    a.out.values[out.recorded] = acc;
    const std::uint32_t ranked =
        ranked_key<Scalar, kSigned>(acc, key_of<Scalar>(acc), flip);
    // In integers, or the compiler makes a branch of it.
    const std::uint32_t high = ranked >= hi ? 1 : 0;
    const std::uint32_t left = Scalar::bits(acc) & (high - 1);
    if constexpr (kMode == Mode::kMemory) {
      if (high != 0) a.source.memory[i + b] = 0.0F;
    } else {
      keep<Scalar, kMode>(a.source, i + b, __builtin_bit_cast(float, left));
    }
    out.recorded += hit;
    out.hi += high & hit;
  };
  const auto lowest = [](std::uint32_t w) {
    return static_cast<std::uint32_t>(__builtin_ctz(w));
  };
  const std::uint32_t none = word == 0 ? 1U : 0U;
  one(lowest(word | none), 1 - none);
  for (word &= word - 1; word != 0; word &= word - 1) one(lowest(word), 1);
}

// The next 32 elements, unless many of them are hits or one is not finite: then
// nothing was done. A bit per hit costs less than a compress per vector where
// there is no instruction for it.
template <class V, Mode kMode, bool kSigned>
inline __attribute__((always_inline)) bool stream_word(
    const StreamArgs& a, std::size_t i, std::uint32_t rec, std::uint32_t hi,
    std::uint32_t flip, StreamResult& out) {
  constexpr std::size_t kW = V::kWidth;
  constexpr int kMostHits = 8;
  constexpr std::size_t kAhead = 1024;
  alignas(64) float buffer[32];
  typename V::F acc[4];
  typename V::M hit[4];
  typename V::I largest = V::broadcast_int(0);
  for (std::size_t j = 0; j < 4; ++j) {
    typename V::F old;
    acc[j] = accumulated<V, kMode>(a.source, i + j * kW, old);
    const typename V::I key = key_of<V>(acc[j]);
    largest = V::max(largest, key);
    hit[j] =
        V::ge(ranked_key<V, kSigned>(acc[j], key, flip), V::broadcast_int(rec));
  }
  // A page ahead, where the hardware's prefetchers do not reach. Any address
  // may be prefetched.
  for (std::size_t j = 0; j < 32; j += 16) {
    if (kMode != Mode::kMemory) {
      __builtin_prefetch(a.source.gradient + i + j + kAhead);
    }
    if (kMode != Mode::kGradient) {
      __builtin_prefetch(a.source.memory + i + j + kAhead);
    }
  }
  const std::uint32_t word = V::bits_of(hit);
  const bool bad = V::any(V::ge(largest, V::broadcast_int(kInfKey)));
  if (__builtin_expect(bad || __builtin_popcount(word) > kMostHits, 0)) {
    return false;
  }
  for (std::size_t j = 0; j < 4; ++j) {
    keep<V, kMode>(a.source, i + j * kW, acc[j]);
    if (kMode == Mode::kGradient) V::store(buffer + j * kW, acc[j]);
  }
  record_hits<kMode, kSigned>(
      a, i, word, kMode == Mode::kGradient ? buffer : a.source.memory + i, hi,
      flip, out);
  return true;
}

// Elements [i, end) whose count is a multiple of the width.
template <class V, Mode kMode, bool kSigned>
inline __attribute__((always_inline)) void stream_span(
    const StreamArgs& a, std::size_t i, std::size_t end, std::uint32_t rec,
    std::uint32_t hi, bool words, StreamResult& out) {
  constexpr std::size_t kW = V::kWidth;
  const std::uint32_t flip = sign_flip(a.source.sign);
  const typename V::I vrec = V::broadcast_int(rec);
  if constexpr (V::kHitWords) {
    for (; words && i + 4 * kW <= end; i += 4 * kW) {
      if (stream_word<V, kMode, kSigned>(a, i, rec, hi, flip, out)) continue;
      for (std::size_t j = i; j < i + 4 * kW; j += kW) {
        record<V, kMode, kSigned>(
            a, j, rec, hi, flip,
            V::iota(a.base + static_cast<std::uint32_t>(j)), out);
      }
    }
  }
  if (!a.many) {
    // Few hits: look at four vectors before doing anything else. A non-finite
    // key is above every threshold, so it takes the slow path too.
    for (; i + 4 * kW <= end; i += 4 * kW) {
      typename V::F old;
      const typename V::F a0 = accumulated<V, kMode>(a.source, i, old);
      const typename V::F a1 = accumulated<V, kMode>(a.source, i + kW, old);
      const typename V::F a2 = accumulated<V, kMode>(a.source, i + 2 * kW, old);
      const typename V::F a3 = accumulated<V, kMode>(a.source, i + 3 * kW, old);
      const bool hit =
          V::any4(V::ge(key_of<V>(a0), vrec), V::ge(key_of<V>(a1), vrec),
                  V::ge(key_of<V>(a2), vrec), V::ge(key_of<V>(a3), vrec));
      if (__builtin_expect(hit, 0)) {
        for (std::size_t j = i; j < i + 4 * kW; j += kW) {
          record<V, kMode, kSigned>(
              a, j, rec, hi, flip,
              V::iota(a.base + static_cast<std::uint32_t>(j)), out);
        }
      } else {
        keep<V, kMode>(a.source, i, a0);
        keep<V, kMode>(a.source, i + kW, a1);
        keep<V, kMode>(a.source, i + 2 * kW, a2);
        keep<V, kMode>(a.source, i + 3 * kW, a3);
      }
    }
  }
  typename V::I index = V::iota(a.base + static_cast<std::uint32_t>(i));
  for (; i + kW <= end; i += kW) {
    record<V, kMode, kSigned>(a, i, rec, hi, flip, index, out);
    index = V::plus(index, V::broadcast_int(kW));
  }
}

template <class V, Mode kMode, bool kSigned>
StreamResult stream_as(const StreamArgs& args) {
  constexpr std::size_t kBlock = 1024;
  // A copy whose address goes nowhere: vector stores may alias anything, and
  // would have every field read again after each of them.
  const StreamArgs a = args;
  StreamResult out;
  std::size_t before = 0;  // recorded before the last block
  for (std::size_t i = 0; i < a.n; i += kBlock) {
    const std::size_t end = i + kBlock < a.n ? i + kBlock : a.n;
    std::uint32_t rec = a.lo;
    std::uint32_t hi = a.hi;
    if (a.tie_cap > 0 && out.recorded - out.hi >= a.tie_cap) rec = hi;
    if (out.recorded + (end - i) > a.out.room) {
      // Record nothing and zero nothing more: what is not recorded must stay.
      // Recording goes on in steps of one block, so room for the last block
      // counts as used up.
      out.overflow = true;
      rec = hi = kInfKey;
    }
    const std::size_t vector_end = i + (end - i) / V::kWidth * V::kWidth;
    // Walking bits pays up to about one hit per word: go by the last block.
    const bool words = a.many && out.recorded - before < kBlock / 24;
    before = out.recorded;
    stream_span<V, kMode, kSigned>(a, i, vector_end, rec, hi, words, out);
    stream_span<Scalar, kMode, kSigned>(a, vector_end, end, rec, hi, false,
                                        out);
  }
  return out;
}

template <Mode kMode, class V>
StreamResult stream_sign(const StreamArgs& a) {
  return a.source.sign == 0 ? stream_as<V, kMode, false>(a)
                            : stream_as<V, kMode, true>(a);
}

inline Mode mode_of(const Source& s) {
  if (s.gradient == nullptr) return Mode::kMemory;
  if (s.memory == nullptr) return Mode::kGradient;
  return s.beta == 1.0F && s.gamma == 1.0F ? Mode::kAdd : Mode::kScaledAdd;
}

template <class V>
StreamResult stream(const StreamArgs& a) {
  switch (mode_of(a.source)) {
    case Mode::kAdd:
      return stream_sign<Mode::kAdd, V>(a);
    case Mode::kScaledAdd:
      return stream_sign<Mode::kScaledAdd, V>(a);
    case Mode::kMemory:
      return stream_sign<Mode::kMemory, V>(a);
    case Mode::kGradient:
      return stream_sign<Mode::kGradient, V>(a);
  }
  return {};
}

// Records indices only: their values are read back, while they are in the
// cache, for the few that passed.
template <class V, Mode kMode>
inline __attribute__((always_inline)) std::size_t pattern_span(
    const PatternArgs& a, std::size_t i, std::size_t end, std::size_t phase,
    StreamResult& out) {
  const std::size_t step = V::kWidth % a.stride;
  typename V::I index = V::iota(static_cast<std::uint32_t>(i));
  for (; i + V::kWidth <= end; i += V::kWidth) {
    typename V::F old;
    typename V::F acc = accumulated<V, kMode>(a.source, i, old);
    const typename V::I key = key_of<V>(acc);
    const typename V::M bad = V::ge(key, V::broadcast_int(kInfKey));
    const typename V::M hit =
        V::mask_and_not(V::ge(key, V::load_int(a.pattern + phase)), bad);
    V::compress_index(a.out.indices + out.recorded, index, hit);
    out.recorded += V::popcount(hit);
    if (__builtin_expect(V::any(bad), 0)) {
      out.nonfinite += V::popcount(bad);
      acc = V::blend(acc, old, bad);
    }
    keep<V, kMode>(a.source, i, acc);
    index = V::plus(index, V::broadcast_int(V::kWidth));
    phase += step;
    phase -= phase >= a.stride ? a.stride : 0;
  }
  return phase;
}

// The values of candidates [from, to), whose indices count from 0, and then
// their indices from a.base.
template <class V, Mode kMode>
inline void read_back(const PatternArgs& a, std::size_t from, std::size_t to) {
  constexpr bool kGradient = kMode == Mode::kGradient;
  const float* x = kGradient ? a.source.gradient : a.source.memory;
  std::uint32_t* indices = a.out.indices;
  const typename V::I base = V::broadcast_int(a.base);
  std::size_t j = from;
  for (; j + V::kWidth <= to; j += V::kWidth) {
    const typename V::I index = V::load_int(indices + j);
    typename V::F value = V::gather_float(x, index);
    if (kGradient) value = V::mul(value, V::broadcast(a.source.gamma));
    V::store(a.out.values + j, value);
    V::store_int(indices + j, V::plus(index, base));
  }
  for (; j < to; ++j) {
    const float value = x[indices[j]];
    a.out.values[j] = kGradient ? value * a.source.gamma : value;
    indices[j] += a.base;
  }
}

template <class V, Mode kMode>
StreamResult pattern_as(const PatternArgs& args) {
  constexpr std::size_t kBlock = 8192;
  const PatternArgs a = args;
  StreamResult out;
  std::size_t phase = 0;
  for (std::size_t i = 0; i < a.n; i += kBlock) {
    const std::size_t end = i + kBlock < a.n ? i + kBlock : a.n;
    const std::size_t whole = i + (end - i) / V::kWidth * V::kWidth;
    const std::size_t before = out.recorded;
    phase = pattern_span<V, kMode>(a, i, whole, phase, out);
    phase = pattern_span<Scalar, kMode>(a, whole, end, phase, out);
    read_back<V, kMode>(a, before, out.recorded);
  }
  return out;
}

// (index % stride) >> shift for indices below 2^24, where floats are exact; the
// quotient may be one off.
template <class V>
void groups_of(const std::uint32_t* indices, std::size_t m, std::uint32_t base,
               std::uint32_t stride, unsigned shift, std::uint32_t* groups) {
  const typename V::F inverse = V::broadcast(1.0F / static_cast<float>(stride));
  const typename V::I width = V::broadcast_int(stride);
  const typename V::I negative = V::broadcast_int(0U - stride);
  const typename V::I first = V::broadcast_int(base);
  std::size_t i = 0;
  for (; i + V::kWidth <= m; i += V::kWidth) {
    const typename V::I x = V::minus(V::load_int(indices + i), first);
    const typename V::I q = V::to_int(V::mul(V::to_float(x), inverse));
    // One too many: x - q * stride has wrapped round to above x.
    typename V::I r = V::minus(x, V::times(q, width));
    r = V::add_where(r, width, V::wrapped(r));
    r = V::add_where(r, negative, V::ge(r, width));
    V::store_int(groups + i, V::shift_right(r, shift));
  }
  for (; i < m; ++i) groups[i] = ((indices[i] - base) % stride) >> shift;
}

template <class V>
StreamResult pattern(const PatternArgs& a) {
  switch (mode_of(a.source)) {
    case Mode::kAdd:
      return pattern_as<V, Mode::kAdd>(a);
    case Mode::kScaledAdd:
      return pattern_as<V, Mode::kScaledAdd>(a);
    case Mode::kMemory:
      return pattern_as<V, Mode::kMemory>(a);
    case Mode::kGradient:
      return pattern_as<V, Mode::kGradient>(a);
  }
  return {};
}

template <class V>
void add(float* r, const float* g, std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 * V::kWidth <= n; i += 4 * V::kWidth) {
    for (std::size_t j = i; j < i + 4 * V::kWidth; j += V::kWidth) {
      V::store(r + j, V::add(V::load(r + j), V::load(g + j)));
    }
  }
  for (; i < n; ++i) r[i] += g[i];
}

template <class V>
std::size_t scale(const float* from, float factor, float* to, std::size_t n) {
  const typename V::F by = V::broadcast(factor);
  const typename V::I infinite = V::broadcast_int(kInfKey);
  std::size_t bad = 0;
  std::size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    const typename V::F x = V::mul(by, V::load(from + i));
    V::store(to + i, x);
    bad += V::popcount(V::ge(key_of<V>(x), infinite));
  }
  for (; i < n; ++i) {
    to[i] = factor * from[i];
    bad += key_of<Scalar>(to[i]) >= kInfKey ? 1U : 0U;
  }
  return bad;
}

template <class V>
std::size_t accumulate(const Source& s, std::size_t n) {
  // Nothing reaches kInfKey but what is not finite, and that is never recorded.
  StreamArgs args;
  args.source = s;
  args.source.sign = 0;
  args.n = n;
  args.lo = args.hi = kInfKey;
  std::uint32_t no_indices[kSlack];
  float no_values[kSlack];
  args.out = {no_indices, no_values, n};
  return stream<V>(args).nonfinite;
}

#include "sluice/backend/cpu/kernels_lists_inl.h"

template <class V>
constexpr Kernels table(std::string_view name) {
  return {name,        &add<V>,          &accumulate<V>, &stream<V>,
          &pattern<V>, &emit<V>,         &collect<V>,    &divide<V>,
          &merge,      &emit_grouped<V>, &groups_of<V>,  &count_ge<V>,
          &scale<V>,   &top_small<V>,    &cut_small<V>,  &statistics<V>};
}
