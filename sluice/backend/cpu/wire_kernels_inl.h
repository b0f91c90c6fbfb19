// Included inside an unnamed namespace by a source for each instruction set.

inline std::uint64_t two(const std::uint32_t* x) {
  std::uint64_t both = 0;
  std::memcpy(&both, x, 8);
  return both;
}

inline void pack(const std::uint32_t* x, std::size_t n, std::uint32_t base,
                 unsigned bits, BitWriter& out) {
  if (bits == 0) return;
  BitWriter to = out;  // in registers
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const std::uint64_t bases = std::uint64_t{base} << 32 | base;
  const auto pair = [&](std::size_t i) {
    // No borrow between the halves: x is not below base.
    const std::uint64_t w = two(x + i) - bases;
    return (w & mask) | (w >> (32 - bits) & mask << bits);
  };
  std::size_t i = 0;
  if (bits <= 16) {
    for (; i + 4 <= n; i += 4) {
      to.put(pair(i) | pair(i + 2) << (2 * bits), 4 * bits);
    }
  } else {
    for (; i + 2 <= n; i += 2) to.put(pair(i), 2 * bits);
  }
  for (; i < n; ++i) to.put((x[i] - base) & mask, bits);
  out = to;
}

inline void unpack(const std::byte* in, const std::byte* end, std::uint64_t at,
                   std::size_t n, unsigned bits, std::uint32_t* out) {
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  std::size_t i = 0;
  // Where a load of eight bytes still ends inside.
  const auto bytes = static_cast<std::uint64_t>(end - in);
  const auto inside = [&](std::uint64_t bit) { return bit / 8 + 8 <= bytes; };
  const auto window = [&] {
    std::uint64_t w = 0;
    std::memcpy(&w, in + at / 8, 8);
    return w >> (at % 8);
  };
  if (bits <= 14) {
    for (; i + 4 <= n && inside(at); i += 4, at += 4 * bits) {
      const std::uint64_t w = window();
      out[i] = static_cast<std::uint32_t>(w) & mask;
      out[i + 1] = static_cast<std::uint32_t>(w >> bits) & mask;
      out[i + 2] = static_cast<std::uint32_t>(w >> (2 * bits)) & mask;
      out[i + 3] = static_cast<std::uint32_t>(w >> (3 * bits)) & mask;
    }
  }
  for (; i < n && inside(at); ++i, at += bits) {
    out[i] = static_cast<std::uint32_t>(window()) & mask;
  }
  for (; i < n; ++i, at += bits) {
    std::uint64_t w = 0;
    if (at / 8 < bytes) std::memcpy(&w, in + at / 8, bytes - at / 8);
    out[i] = static_cast<std::uint32_t>(w >> (at % 8)) & mask;
  }
}

// Words are built in a register: about 32 entries share one.
struct HighWriter {
  std::byte* out;
  std::uint64_t word = 0;
  std::size_t at = 0;

  void put(std::uint64_t position) {
    while (position / 64 != at) flush();
    word |= std::uint64_t{1} << (position % 64);
  }
  void flush() {
    store_word(out, at++, word);
    word = 0;
  }
};

inline void write_high(const std::uint32_t* x, std::size_t n,
                       std::uint32_t base, unsigned low, std::byte* out,
                       std::size_t words) {
  HighWriter to{out};
  for (std::size_t i = 0; i < n; ++i) {
    to.put((std::uint64_t{x[i] - base} >> low) + i);
  }
  while (to.at < words) to.flush();
}

// Entries from i on, whose ones are in the words from w on. The loop for the
// end of a list, and all of it where there is no faster one.
inline bool read_elias_fano_from(const EliasFanoBits& in, std::uint32_t base,
                                 std::uint32_t* x, std::size_t i, std::size_t n,
                                 std::size_t w, std::uint64_t& highest) {
  unpack(in.lows, in.end, i * in.low, n - i, in.low, x + i);
  for (; w < in.words; ++w) {
    std::uint64_t word = load_word(in.highs, w);
    if (word == 0) continue;
    const auto ones = static_cast<std::size_t>(__builtin_popcountll(word));
    if (ones > n - i) return false;
    // The i-th one stands at its high part plus i.
    std::uint64_t high = 64 * w - i;
    highest =
        high + 64 - static_cast<std::uint64_t>(__builtin_clzll(word)) - ones;
    for (const std::size_t last = i + ones; i < last; ++i, --high) {
      const auto bit = static_cast<std::uint64_t>(__builtin_ctzll(word));
      x[i] += base + static_cast<std::uint32_t>((high + bit) << in.low);
      word &= word - 1;
    }
  }
  return i == n;
}

inline bool read_elias_fano(const EliasFanoBits& in, std::uint32_t base,
                            std::uint32_t* x, std::size_t n,
                            std::uint64_t& highest) {
  return read_elias_fano_from(in, base, x, 0, n, 0, highest);
}

inline bool read_bitmap(const std::byte* in, std::size_t words,
                        std::uint32_t base, std::uint32_t* x, std::size_t n) {
  std::size_t i = 0;
  for (std::size_t w = 0; w < words; ++w) {
    std::uint64_t word = load_word(in, w);
    const auto ones = static_cast<std::size_t>(__builtin_popcountll(word));
    if (ones > n - i) return false;
    for (const std::size_t last = i + ones; i < last; ++i) {
      x[i] = base +
             static_cast<std::uint32_t>(
                 64 * w + static_cast<std::uint64_t>(__builtin_ctzll(word)));
      word &= word - 1;
    }
  }
  return i == n;
}

// Each goes to the place that the number of smaller ones is. Sixteen at a time,
// behind the last of which stand keys that no key is above.
template <class CountBelow>
inline bool sort_by_rank(std::uint16_t* keys, std::size_t n, std::uint32_t base,
                         std::uint32_t* x, CountBelow&& count_below) {
  const std::size_t padded = (n + 31) / 32 * 32;
  for (std::size_t i = n; i < padded; ++i) keys[i] = 0x7fff;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t place = count_below(keys, padded, keys[i]);
    x[place] = base + keys[i];
    sum += place;
  }
  return 2 * sum == n * (n - 1);  // less if two share a place
}

inline bool sort_small(std::uint16_t* keys, std::size_t n, std::uint32_t base,
                       std::uint32_t* x) {
  const auto count_below = [](const std::uint16_t* k, std::size_t m,
                              std::uint16_t key) {
    unsigned count = 0;
    for (std::size_t j = 0; j < m; ++j) count += k[j] < key ? 1U : 0U;
    return std::size_t{count};
  };
  return sort_by_rank(keys, n, base, x, count_below);
}

inline bool below(const std::uint32_t* x, std::size_t n, std::uint64_t limit) {
  if (limit >> 32 != 0) return true;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad |= x[i] >= limit ? 1U : 0U;
  return bad == 0;
}

inline bool ascends(const std::uint32_t* x, std::size_t n) {
  std::uint32_t bad = 0;
  for (std::size_t i = 1; i < n; ++i) bad |= x[i] <= x[i - 1] ? 1U : 0U;
  return bad == 0;
}

inline std::uint32_t gaps(const std::uint32_t* x, std::size_t n) {
  std::uint32_t bits = 0;
  for (std::size_t i = 1; i < n; ++i) bits |= x[i] - x[i - 1] - 1;
  return bits;
}

inline bool copy_finite(const std::byte* in, std::size_t n, float* out) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, in + 4 * i, 4);
    bad |= (bits & 0x7fffffffU) >= 0x7f800000U ? 1U : 0U;
    std::memcpy(out + i, &bits, 4);
  }
  return bad == 0;
}

inline bool uniform(const float* x, std::size_t n) {
  std::uint32_t first = 0;
  std::uint32_t other = 0;
  if (n > 0) std::memcpy(&first, x, 4);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x + i, 4);
    other |= bits ^ first;
  }
  return other == 0;
}

inline void sum(const std::byte* message, std::size_t first, std::size_t last,
                WireChecksum& out) {
  WireChecksum mine = out;  // in registers
  std::uint64_t key = first * WireChecksum::kStep;
  for (std::size_t i = first; i < last; ++i) {
    key += WireChecksum::kStep;
    mine.add_keyed(key, load_word(message, i));
  }
  out = mine;
}

constexpr WireKernels kTable = {
    pack,  unpack,  write_high, read_elias_fano, read_bitmap, sort_small,
    below, ascends, gaps,       copy_finite,     uniform,     sum};
