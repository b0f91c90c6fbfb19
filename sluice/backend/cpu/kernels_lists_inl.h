// The second half of kernels_inl.h, which includes it inside the namespace of
// an instruction set: loops over lists of candidates, and statistics.

template <class V>
void emit(const Candidates& from, std::size_t m, std::uint32_t cut,
          std::uint32_t* indices, float* values, std::size_t count) {
  std::size_t i = 0;
  std::size_t o = 0;
  // A full-vector store may reach the neighbour's slots: stop one vector early.
  while (i + V::kWidth <= m && o + V::kWidth <= count) {
    const typename V::F v = V::load(from.values + i);
    const typename V::M take = V::ge(key_of<V>(v), V::broadcast_int(cut));
    V::compress(indices + o, V::load_int(from.indices + i), values + o, v,
                take);
    o += V::popcount(take);
    i += V::kWidth;
  }
  for (; i < m && o < count; ++i) {
    if (key_of<Scalar>(from.values[i]) < cut) continue;
    indices[o] = from.indices[i];
    values[o++] = from.values[i];
  }
}

template <class V>
std::size_t collect(const Candidates& from, std::size_t m, std::uint32_t lo,
                    std::uint32_t hi, std::uint32_t* indices, float* values) {
  std::size_t i = 0;
  std::size_t o = 0;
  for (; i + V::kWidth <= m; i += V::kWidth) {
    const typename V::F v = V::load(from.values + i);
    const typename V::I key = key_of<V>(v);
    const typename V::M take = V::mask_and_not(
        V::ge(key, V::broadcast_int(lo)), V::ge(key, V::broadcast_int(hi)));
    V::compress(indices + o, V::load_int(from.indices + i), values + o, v,
                take);
    o += V::popcount(take);
  }
  for (; i < m; ++i) {
    const std::uint32_t key = key_of<Scalar>(from.values[i]);
    if (key < lo || key >= hi) continue;
    indices[o] = from.indices[i];
    values[o++] = from.values[i];
  }
  return o;
}

template <class V>
std::size_t divide(const Candidates& from, std::size_t m,
                   const std::uint32_t* flags, const Candidates& ones,
                   const Candidates& zeros) {
  std::size_t i = 0;
  std::size_t o = 0;
  for (; i + V::kWidth <= m; i += V::kWidth) {
    const typename V::F v = V::load(from.values + i);
    const typename V::I index = V::load_int(from.indices + i);
    const typename V::I flag = V::load_int(flags + i);
    const typename V::M one = V::ge(flag, V::broadcast_int(1));
    V::compress(ones.indices + o, index, ones.values + o, v, one);
    V::compress(zeros.indices + (i - o), index, zeros.values + (i - o), v,
                V::ge(V::broadcast_int(0), flag));
    o += V::popcount(one);
  }
  for (; i < m; ++i) {
    ones.indices[o] = zeros.indices[i - o] = from.indices[i];
    ones.values[o] = zeros.values[i - o] = from.values[i];
    o += flags[i];
  }
  return o;
}

// Where a merge stands: in either list, and in the output.
struct Place {
  std::size_t i;
  std::size_t j;
  std::size_t out;
};

struct Merge {
  const std::uint32_t* a;
  const float* av;
  const std::uint32_t* b;
  const float* bv;
  std::uint32_t* out;
  float* outv;

  // Both sides must have an entry left. Which comes next is a coin toss, so no
  // branch may depend on it; equal indices are rare or the rule.
  __attribute__((always_inline)) void step(Place& at) const {
    const std::uint32_t x = a[at.i];
    const std::uint32_t y = b[at.j];
    const std::uint32_t from_a = 0U - static_cast<std::uint32_t>(x < y);
    const auto v = __builtin_bit_cast(std::uint32_t, av[at.i]);
    const auto w = __builtin_bit_cast(std::uint32_t, bv[at.j]);
    out[at.out] = y ^ ((x ^ y) & from_a);
    float value = __builtin_bit_cast(float, w ^ ((v ^ w) & from_a));
    if (x == y) value = av[at.i] + bv[at.j];
    outv[at.out] = value;
    at.i += static_cast<std::size_t>(x <= y);
    at.j += static_cast<std::size_t>(y <= x);
    ++at.out;
  }
  void copy(const std::uint32_t* x, const float* v, std::size_t n,
            Place& at) const {
    if (n == 0) return;
    __builtin_memcpy(out + at.out, x, 4 * n);
    __builtin_memcpy(outv + at.out, v, 4 * n);
    at.out += n;
  }
  void finish(Place& at, std::size_t i_end, std::size_t j_end) const {
    while (at.i < i_end && at.j < j_end) step(at);
    copy(a + at.i, av + at.i, i_end - at.i, at);
    copy(b + at.j, bv + at.j, j_end - at.j, at);
  }
};

// The first of n ascending indices that is not below x.
inline std::size_t first_from(const std::uint32_t* indices, std::size_t n,
                              std::uint32_t x) {
  std::size_t first = 0;
  while (n > 0) {
    const std::size_t half = n / 2;
    const bool below = indices[first + half] < x;
    first += below ? half + 1 : 0;
    n = below ? n - half - 1 : half;
  }
  return first;
}

// Two halves side by side: each step waits for its own loads and comparison, so
// two take little more time than one.
inline std::size_t merge(const Candidates& a, const Candidates& b,
                         const Candidates& to) {
  const Merge m = {a.indices, a.values,   b.indices,
                   b.values,  to.indices, to.values};
  const std::size_t i_half = a.room / 2;
  const std::size_t j_half =
      a.room == 0 ? 0 : first_from(b.indices, b.room, a.indices[i_half]);
  Place low = {0, 0, 0};
  Place high = {i_half, j_half, i_half + j_half};
  while (true) {
    std::size_t steps = a.room + b.room;
    for (const std::size_t left :
         {i_half - low.i, j_half - low.j, a.room - high.i, b.room - high.j}) {
      steps = left < steps ? left : steps;
    }
    if (steps == 0) break;
    for (; steps > 0; --steps) {
      m.step(low);
      m.step(high);
    }
  }
  m.finish(low, i_half, j_half);
  m.finish(high, a.room, b.room);
  // Close the gap that indices in both lists left between the halves.
  const std::size_t begin = i_half + j_half;
  const std::size_t size = high.out - begin;
  if (low.out < begin) {
    __builtin_memmove(m.out + low.out, m.out + begin, 4 * size);
    __builtin_memmove(m.outv + low.out, m.outv + begin, 4 * size);
  }
  return low.out + size;
}

template <class V>
std::size_t emit_grouped(const Candidates& from, std::size_t m,
                         const std::uint32_t* group_of,
                         const std::uint32_t* cuts, std::size_t most,
                         std::uint32_t* indices, float* values) {
  std::size_t i = 0;
  std::size_t o = 0;
  for (; i + V::kWidth <= m && o <= most; i += V::kWidth) {
    const typename V::F v = V::load(from.values + i);
    const typename V::M take =
        V::ge(key_of<V>(v), V::gather(cuts, V::load_int(group_of + i)));
    V::compress(indices + o, V::load_int(from.indices + i), values + o, v,
                take);
    o += V::popcount(take);
  }
  for (; i < m && o <= most; ++i) {
    indices[o] = from.indices[i];
    values[o] = from.values[i];
    o += key_of<Scalar>(from.values[i]) >= cuts[group_of[i]] ? 1U : 0U;
  }
  return o;
}

template <class V>
std::size_t count_ge(const float* values, std::size_t m, std::uint32_t cut) {
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + V::kWidth <= m; i += V::kWidth) {
    count += V::popcount(
        V::ge(key_of<V>(V::load(values + i)), V::broadcast_int(cut)));
  }
  for (; i < m; ++i) count += key_of<Scalar>(values[i]) >= cut ? 1U : 0U;
  return count;
}

// How many of keys[0, m) come before those of the vector at `at`: larger ones,
// and equal ones that stand earlier.
template <class V>
inline __attribute__((always_inline)) typename V::I ranks_of(
    const std::uint32_t* keys, std::size_t m, std::size_t at) {
  const typename V::I mine = V::load_int(keys + at);
  typename V::I rank = V::broadcast_int(0);
  std::size_t i = 0;
  for (; i < at; ++i) {
    rank = V::count_up(rank, V::ge(V::broadcast_int(keys[i]), mine));
  }
  const typename V::I position = V::iota(static_cast<std::uint32_t>(at));
  for (; i < m && i < at + V::kWidth; ++i) {
    const typename V::I other = V::broadcast_int(keys[i]);
    const typename V::M later =
        V::ge(position, V::broadcast_int(static_cast<std::uint32_t>(i) + 1));
    const typename V::M not_less = V::ge(other, mine);
    // Behind i: other >= mine. At or before it: other > mine.
    const typename V::M equal_or_less = V::ge(mine, other);
    rank = V::count_up(
        rank, V::mask_and_not(not_less, V::mask_and_not(equal_or_less, later)));
  }
  for (; i < m; ++i) {
    const typename V::I other = V::broadcast_int(keys[i]);
    rank = V::count_up(rank,
                       V::mask_and_not(V::ge(other, mine), V::ge(mine, other)));
  }
  return rank;
}

// ranks_of for m <= 16 keys behind which zeros stand: the trip count is fixed,
// so nothing is mispredicted. Zeros at the end outrank nobody.
template <class V>
inline __attribute__((always_inline)) typename V::I ranks_of_16(
    const std::uint32_t* keys, std::size_t at) {
  const typename V::I mine = V::load_int(keys + at);
  const typename V::I position = V::iota(static_cast<std::uint32_t>(at));
  typename V::I rank = V::broadcast_int(0);
#pragma GCC unroll 16
  for (std::uint32_t i = 0; i < 16; ++i) {
    const typename V::I other = V::broadcast_int(keys[i]);
    const typename V::M earlier_wins = V::mask_and_not(
        V::ge(mine, other), V::ge(position, V::broadcast_int(i + 1)));
    rank = V::count_up(rank, V::mask_and_not(V::ge(other, mine), earlier_wins));
  }
  return rank;
}

template <class V>
void top_small(const Candidates& from, std::size_t m, std::size_t k,
               std::uint32_t* indices, float* values) {
  alignas(64) std::uint32_t keys[kSmall + kSlack];
  const typename V::I end = V::broadcast_int(static_cast<std::uint32_t>(m));
  const typename V::I top = V::broadcast_int(static_cast<std::uint32_t>(k));
  const bool few = m <= 16;
  const std::size_t padded = few ? 16 : m;
  for (std::size_t i = 0; i < padded; i += V::kWidth) {
    const typename V::M past =
        V::ge(V::iota(static_cast<std::uint32_t>(i)), end);
    V::store_int(keys + i,
                 key_of<V>(V::zero_where(V::load(from.values + i), past)));
  }
  std::size_t o = 0;
  for (std::size_t at = 0; at < padded; at += V::kWidth) {
    const typename V::I rank =
        few ? ranks_of_16<V>(keys, at) : ranks_of<V>(keys, m, at);
    const typename V::M past =
        V::ge(V::iota(static_cast<std::uint32_t>(at)), end);
    const typename V::M take =
        V::mask_and_not(V::ge(rank, rank), V::mask_or(past, V::ge(rank, top)));
    V::compress(indices + o, V::load_int(from.indices + at), values + o,
                V::load(from.values + at), take);
    o += V::popcount(take);
  }
}

template <class V>
Cut cut_small(const std::uint32_t* keys, std::size_t m, std::size_t k) {
  alignas(64) std::uint32_t rank[kSmall + kSlack];
  for (std::size_t at = 0; at < m; at += V::kWidth) {
    V::store_int(rank + at, ranks_of<V>(keys, m, at));
  }
  Cut cut;
  for (std::size_t i = 0; i < m; ++i) {
    cut.key = rank[i] == k - 1 ? keys[i] : cut.key;
  }
  std::size_t above = 0;
  for (std::size_t i = 0; i < m; ++i) above += keys[i] > cut.key ? 1U : 0U;
  cut.quota = k - above;
  return cut;
}

template <class V, Mode kMode>
inline void statistics_block(const Source& s, std::size_t n, float* x,
                             std::uint32_t* keys, Moments& m) {
  for (std::size_t i = 0; i < n; i += V::kWidth) {
    typename V::F old;
    typename V::F acc = accumulated<V, kMode>(s, i, old);
    typename V::I key = key_of<V>(acc);
    const typename V::M bad = V::ge(key, V::broadcast_int(kInfKey));
    if (__builtin_expect(V::any(bad), 0)) {
      m.nonfinite += V::popcount(bad);
      m.count -= V::popcount(bad);
      acc = V::zero_where(acc, bad);
      key = key_of<V>(acc);
    }
    if (s.sign != 0) {
      key = V::flip_clamp(V::bits(acc), V::broadcast_int(sign_flip(s.sign)));
    }
    V::store(x + i, acc);
    V::store_int(keys + i, key);
  }
  m.count += n;
}

// One block of up to kBlock elements: x and the keys.
template <class V, Mode kMode>
inline void statistics_mode(const Source& s, std::size_t len, float* x,
                            std::uint32_t* keys, Moments& m) {
  const std::size_t whole = len / V::kWidth * V::kWidth;
  statistics_block<V, kMode>(s, whole, x, keys, m);
  statistics_block<Scalar, kMode>(s.at(whole), len - whole, x + whole,
                                  keys + whole, m);
}

template <class V>
void statistics(const Source& source, std::size_t n, bool sums,
                std::uint32_t* keys, std::uint32_t* histogram, Moments& m) {
  constexpr std::size_t kBlock = 256;
  alignas(64) float x[kBlock];
  typename V::Sums lanes;
  std::uint32_t max_key = 0;
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t len = n - i < kBlock ? n - i : kBlock;
    const Source s = source.at(i);
    switch (mode_of(s)) {
      case Mode::kAdd:
        statistics_mode<V, Mode::kAdd>(s, len, x, keys + i, m);
        break;
      case Mode::kScaledAdd:
        statistics_mode<V, Mode::kScaledAdd>(s, len, x, keys + i, m);
        break;
      case Mode::kMemory:
        statistics_mode<V, Mode::kMemory>(s, len, x, keys + i, m);
        break;
      case Mode::kGradient:
        statistics_mode<V, Mode::kGradient>(s, len, x, keys + i, m);
        break;
    }
    if (sums) {
      for (std::size_t j = len; j < (len + 7) / 8 * 8; ++j) x[j] = 0.0F;
      for (std::size_t j = 0; j < len; j += 8) lanes.add(x + j);
    }
    for (std::size_t j = 0; j < len; ++j) {
      max_key = keys[i + j] > max_key ? keys[i + j] : max_key;
    }
    if (histogram != nullptr) {
      for (std::size_t j = 0; j < len; ++j) {
        ++histogram[keys[i + j] >> kHistogramShift];
      }
    }
  }
  alignas(64) double sum[8];
  alignas(64) double abs[8];
  alignas(64) double sq[8];
  lanes.store(sum, abs, sq);
  for (std::size_t l = 0; l < 8; ++l) {
    m.sum += sum[l];
    m.sum_abs += abs[l];
    m.sum_sq += sq[l];
  }
  const auto max_abs = static_cast<double>(__builtin_bit_cast(float, max_key));
  m.max_abs = max_abs > m.max_abs ? max_abs : m.max_abs;
}
