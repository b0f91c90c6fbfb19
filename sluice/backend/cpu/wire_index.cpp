#include "sluice/backend/cpu/wire_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sluice/backend/cpu/bits.h"

namespace sluice::cpu::wire {
namespace {

constexpr std::size_t kBlock = 256;

// n numbers of `bits` each, four to a put where they fit.
template <class F>
void put_all(BitWriter& writer, unsigned bits, std::size_t n, F&& number) {
  std::size_t i = 0;
  if (bits <= 16) {
    for (; i + 4 <= n; i += 4) {
      std::uint64_t four = number(i);
      four |= number(i + 1) << bits;
      four |= number(i + 2) << (2 * bits);
      four |= number(i + 3) << (3 * bits);
      writer.put(four, 4 * bits);
    }
  }
  for (; i < n; ++i) writer.put(number(i), bits);
}

// Elias-Fano: the low bits of each index packed, then its high part as the
// distance to the one before, in unary. Within half a bit of the entropy for
// random positions.
unsigned low_bits(std::uint64_t n, std::uint64_t k) {
  return k == 0 ? 0 : static_cast<unsigned>(std::bit_width(n / k)) - 1;
}

struct EliasFano {
  EliasFano(std::uint64_t n, std::uint64_t k)
      : low(low_bits(n, k)),
        low_words(words_for(k * low)),
        high_words(k == 0 ? 0 : words_for(k + ((n - 1) >> low) + 1)) {}
  unsigned low;
  std::size_t low_words;
  std::size_t high_words;
};

template <class Index>
void write_elias_fano(std::span<const Index> indices, std::uint64_t n,
                      std::byte* out) {
  const EliasFano shape(n, indices.size());
  const std::uint64_t mask = (std::uint64_t{1} << shape.low) - 1;
  BitWriter low(out);
  put_all(low, shape.low, indices.size(),
          [&](std::size_t i) { return indices[i] & mask; });
  low.finish();
  std::byte* high = out + 8 * shape.low_words;
  // Words are built in a register: about 32 entries share one.
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint64_t position = (std::uint64_t{indices[i]} >> shape.low) + i;
    while (position / 64 != at) {
      store_word(high, at++, word);
      word = 0;
    }
    word |= std::uint64_t{1} << (position % 64);
  }
  while (at < shape.high_words) {
    store_word(high, at++, word);
    word = 0;
  }
}

template <class Index>
WireError read_elias_fano(std::span<const std::byte> in, std::uint64_t n,
                          std::span<Index> indices) {
  const EliasFano shape(n, indices.size());
  if (in.size() != 8 * (shape.low_words + shape.high_words)) {
    return WireError::kIndexSection;
  }
  const std::byte* high = in.data() + 8 * shape.low_words;
  const std::uint64_t mask = (std::uint64_t{1} << shape.low) - 1;
  // An unaligned load holds the low bits of an entry up to here. The last one
  // may reach into the high words, of which there is at least one.
  const bool narrow = shape.low <= 56;
  BitReader low(in.data());
  std::uint64_t bit_position = 0;
  std::uint64_t highest = 0;  // high part of the last entry
  std::size_t i = 0;
  for (std::size_t w = 0; w < shape.high_words; ++w) {
    std::uint64_t word = load_word(high, w);
    const auto ones = static_cast<std::size_t>(std::popcount(word));
    if (ones > indices.size() - i) return WireError::kIndexSection;
    // The i-th one stands at its high part plus i.
    const std::uint64_t base = 64 * w - i;
    Index* out = indices.data() + i;
    for (std::size_t j = 0; j < ones; ++j, word &= word - 1) {
      const auto bit = static_cast<std::uint64_t>(std::countr_zero(word));
      highest = base + bit - j;
      std::uint64_t rest = 0;
      if (narrow) {
        std::memcpy(&rest, in.data() + bit_position / 8, 8);
        rest = rest >> (bit_position % 8) & mask;
        bit_position += shape.low;
      } else {
        rest = low.get(shape.low);
      }
      out[j] = static_cast<Index>(highest << shape.low | rest);
    }
    i += ones;
  }
  if (i != indices.size()) return WireError::kIndexSection;
  if (i > 0 && highest > (n - 1) >> shape.low) return WireError::kIndexRange;
  return WireError::kNone;
}

// Deltas in blocks of kBlock: a byte of width each, then the packed blocks.
template <class Index>
unsigned block_width(std::span<const Index> indices, std::size_t begin) {
  const std::size_t end = std::min(indices.size(), begin + kBlock);
  Index bits =
      begin == 0 ? indices[0]
                 : static_cast<Index>(indices[begin] - indices[begin - 1] - 1);
  // The widths of the largest and of the OR of all are the same.
  for (std::size_t i = begin + 1; i < end; ++i) {
    bits |= static_cast<Index>(indices[i] - indices[i - 1] - 1);
  }
  return static_cast<unsigned>(std::bit_width(bits));
}

std::size_t width_words(std::size_t count) {
  return words_for(8 * ((count + kBlock - 1) / kBlock));
}

template <class Index>
std::size_t bitpack_bytes(std::span<const Index> indices) {
  std::uint64_t words = width_words(indices.size());
  for (std::size_t begin = 0; begin < indices.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, indices.size() - begin);
    words += words_for(count * block_width(indices, begin));
  }
  return 8 * words;
}

template <class Index>
void write_bitpack(std::span<const Index> indices, std::byte* out) {
  std::byte* widths = out;
  const std::size_t words = width_words(indices.size());
  std::memset(out, 0, 8 * words);
  out += 8 * words;
  std::uint64_t next = 0;  // index - next is the delta
  for (std::size_t begin = 0; begin < indices.size(); begin += kBlock) {
    const unsigned width = block_width(indices, begin);
    *widths++ = static_cast<std::byte>(width);
    BitWriter writer(out);
    const std::size_t end = std::min(indices.size(), begin + kBlock);
    put_all(writer, width, end - begin, [&](std::size_t i) {
      const std::uint64_t delta = indices[begin + i] - next;
      next = std::uint64_t{indices[begin + i]} + 1;
      return delta;
    });
    out = writer.finish();
  }
}

template <class Index>
WireError read_bitpack(std::span<const std::byte> in, std::uint64_t n,
                       std::span<Index> indices) {
  std::uint64_t used = width_words(indices.size());
  if (in.size() % 8 != 0 || used > in.size() / 8) {
    return WireError::kIndexSection;
  }
  const std::uint64_t all = in.size() / 8;
  std::uint64_t next = 0;
  for (std::size_t begin = 0; begin < indices.size(); begin += kBlock) {
    const auto width = static_cast<unsigned>(in[begin / kBlock]);
    const std::size_t count = std::min(kBlock, indices.size() - begin);
    if (width > 64 || words_for(count * width) > all - used) {
      return WireError::kIndexSection;
    }
    BitReader reader(in.data() + 8 * used);
    for (std::size_t i = begin; i < begin + count; ++i) {
      const std::uint64_t delta = reader.get(width);
      // Also keeps the sum from wrapping round.
      if (delta >= n || next > n - 1 - delta) return WireError::kIndexRange;
      indices[i] = static_cast<Index>(next + delta);
      next += delta + 1;
    }
    used += words_for(count * width);
  }
  return used == all ? WireError::kNone : WireError::kIndexSection;
}

template <class Index>
void write_bitmap(std::span<const Index> indices, std::uint64_t n,
                  std::byte* out) {
  std::memset(out, 0, 8 * words_for(n));
  for (const Index index : indices) {
    store_word(out, index / 64,
               load_word(out, index / 64) | std::uint64_t{1} << (index % 64));
  }
}

template <class Index>
WireError read_bitmap(std::span<const std::byte> in, std::uint64_t n,
                      std::span<Index> indices) {
  if (in.size() != 8 * words_for(n)) return WireError::kIndexSection;
  std::size_t i = 0;
  for (std::size_t w = 0; w < words_for(n); ++w) {
    for (std::uint64_t word = load_word(in.data(), w); word != 0;
         word &= word - 1) {
      if (i == indices.size()) return WireError::kIndexSection;
      indices[i++] = static_cast<Index>(
          64 * w + static_cast<std::uint64_t>(std::countr_zero(word)));
    }
  }
  return i == indices.size() ? WireError::kNone : WireError::kIndexSection;
}

template <class Raw, class Index>
void write_raw(std::span<const Index> indices, std::byte* out) {
  for (const Index index : indices) {
    const auto raw = static_cast<Raw>(index);
    std::memcpy(out, &raw, sizeof(raw));
    out += sizeof(raw);
  }
}

template <class Raw, class Index>
WireError read_raw(std::span<const std::byte> in, std::uint64_t n,
                   std::span<Index> indices) {
  const bool reaches = sizeof(Raw) == 8 || n <= std::uint64_t{1} << 32;
  if (!reaches || in.size() != indices.size() * sizeof(Raw)) {
    return WireError::kIndexSection;
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Raw raw = 0;
    std::memcpy(&raw, in.data() + i * sizeof(Raw), sizeof(Raw));
    if (raw >= n) return WireError::kIndexRange;
    indices[i] = static_cast<Index>(raw);
  }
  return WireError::kNone;
}

}  // namespace

template <class Index>
std::size_t index_bytes(const Entries<const Index>& entries, std::uint64_t n,
                        IndexForm form) {
  const std::uint64_t k = entries.indices.size();
  switch (form) {
    case IndexForm::kDense:
      return k == n ? 0 : kCannot;
    case IndexForm::kEliasFano: {
      const EliasFano shape(n, k);
      return 8 * (shape.low_words + shape.high_words);
    }
    case IndexForm::kBitpack:
      return bitpack_bytes(entries.indices);
    case IndexForm::kRows:
      return row_bytes(entries.rows, n, k);
    case IndexForm::kBitmap:
      return 8 * words_for(n);
    case IndexForm::kRaw32:
      return n <= std::uint64_t{1} << 32 ? 4 * k : kCannot;
    case IndexForm::kRaw64:
      return 8 * k;
  }
  return kCannot;
}

template <class Index>
bool write_indices(const Entries<const Index>& entries, std::uint64_t n,
                   IndexForm form, std::byte* out) {
  switch (form) {
    case IndexForm::kDense:
      return true;
    case IndexForm::kEliasFano:
      write_elias_fano(entries.indices, n, out);
      return true;
    case IndexForm::kBitpack:
      write_bitpack(entries.indices, out);
      return true;
    case IndexForm::kRows:
      return write_rows(entries, out);
    case IndexForm::kBitmap:
      write_bitmap(entries.indices, n, out);
      return true;
    case IndexForm::kRaw32:
      write_raw<std::uint32_t>(entries.indices, out);
      return true;
    case IndexForm::kRaw64:
      write_raw<std::uint64_t>(entries.indices, out);
      return true;
  }
  return false;
}

template <class Index>
WireError read_indices(std::span<const std::byte> in, std::uint64_t n,
                       IndexForm form, std::span<Index> indices) {
  switch (form) {
    case IndexForm::kDense:
      if (indices.size() != n || !in.empty()) return WireError::kIndexSection;
      for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<Index>(i);
      return WireError::kNone;
    case IndexForm::kEliasFano:
      return read_elias_fano(in, n, indices);
    case IndexForm::kBitpack:
      return read_bitpack(in, n, indices);
    case IndexForm::kRows:
      return read_rows(in, n, indices);
    case IndexForm::kBitmap:
      return read_bitmap(in, n, indices);
    case IndexForm::kRaw32:
      return read_raw<std::uint32_t>(in, n, indices);
    case IndexForm::kRaw64:
      return read_raw<std::uint64_t>(in, n, indices);
  }
  return WireError::kForm;
}

#define SLUICE_INSTANTIATE(Index)                                              \
  template std::size_t index_bytes(const Entries<const Index>&, std::uint64_t, \
                                   IndexForm);                                 \
  template bool write_indices(const Entries<const Index>&, std::uint64_t,      \
                              IndexForm, std::byte*);                          \
  template WireError read_indices(std::span<const std::byte>, std::uint64_t,   \
                                  IndexForm, std::span<Index>);
SLUICE_INSTANTIATE(std::uint32_t)
SLUICE_INSTANTIATE(std::uint64_t)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::cpu::wire
