#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "sluice/backend/cpu/wire_sections.h"

namespace sluice::cpu::wire {
namespace {

using Indices = std::span<const std::uint32_t>;

constexpr std::size_t kBlock = kPackBlock;

std::uint32_t narrow(std::uint64_t x) { return static_cast<std::uint32_t>(x); }

void write_elias_fano(const WireKernels& kernels, Indices indices, Range range,
                      std::byte* out) {
  const EliasFanoShape shape(range.size, indices.size());
  const std::uint32_t base = narrow(range.base);
  BitWriter low(out);
  kernels.pack(indices.data(), indices.size(), base, shape.low, low);
  low.finish();
  kernels.write_high(indices.data(), indices.size(), base, shape.low,
                     out + 8 * shape.low_words, shape.high_words);
}

WireError read_elias_fano(const WireKernels& kernels, Reader& in, Range range,
                          std::span<std::uint32_t> indices) {
  const EliasFanoShape shape(range.size, indices.size());
  if (shape.bytes() > in.left()) return WireError::kIndexSection;
  const EliasFanoBits bits = {in.at, in.at + 8 * shape.low_words,
                              shape.high_words, shape.low, in.end};
  in.at += shape.bytes();
  std::uint64_t highest = 0;
  if (!kernels.read_elias_fano(bits, narrow(range.base), indices.data(),
                               indices.size(), highest)) {
    return WireError::kIndexSection;
  }
  return indices.empty() || highest <= (range.size - 1) >> shape.low
             ? WireError::kNone
             : WireError::kIndexRange;
}

// Deltas in blocks of kBlock: a byte of width each, then the packed blocks.
unsigned block_width(const WireKernels& kernels, Indices indices, Range range,
                     std::size_t begin) {
  const std::size_t count = std::min(kBlock, indices.size() - begin);
  const std::uint32_t first = begin == 0
                                  ? indices[0] - narrow(range.base)
                                  : indices[begin] - indices[begin - 1] - 1;
  // The widths of the largest and of the OR of all are the same.
  return static_cast<unsigned>(
      std::bit_width(first | kernels.gaps(indices.data() + begin, count)));
}

// Of every `step`-th block and as if the others were like them.
std::size_t bitpack_bytes(const WireKernels& kernels, Indices indices,
                          Range range, std::size_t step = 1) {
  const std::size_t blocks = pack_blocks(indices.size());
  std::uint64_t words = 0;
  for (std::size_t b = 0; b < blocks; b += step) {
    const std::size_t count = std::min(kBlock, indices.size() - b * kBlock);
    words +=
        words_for(count * block_width(kernels, indices, range, b * kBlock));
  }
  return pack_bytes(blocks, (blocks + step - 1) / step, words);
}

void write_bitpack(const WireKernels& kernels, Indices indices, Range range,
                   std::byte* out) {
  std::byte* widths = out;
  const std::size_t words = words_for(8 * pack_blocks(indices.size()));
  std::memset(out, 0, 8 * words);
  out += 8 * words;
  std::uint32_t next = narrow(range.base);  // index - next is the delta
  std::array<std::uint32_t, kBlock> deltas;
  for (std::size_t begin = 0; begin < indices.size(); begin += kBlock) {
    const unsigned width = block_width(kernels, indices, range, begin);
    const std::size_t count = std::min(kBlock, indices.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t index = indices[begin + i];
      deltas[i] = index - next;
      next = index + 1;
    }
    *widths++ = static_cast<std::byte>(width);
    BitWriter writer(out);
    kernels.pack(deltas.data(), count, 0, width, writer);
    writer.finish();
    out += 8 * words_for(count * width);
  }
}

WireError read_bitpack(const WireKernels& kernels, Reader& in, Range range,
                       std::span<std::uint32_t> indices) {
  const std::byte* widths = in.at;
  const std::size_t head = 8 * words_for(8 * pack_blocks(indices.size()));
  if (head > in.left()) return WireError::kIndexSection;
  in.at += head;
  std::uint64_t next = 0;
  for (std::size_t begin = 0; begin < indices.size(); begin += kBlock) {
    const auto width = static_cast<unsigned>(*widths++);
    const std::size_t count = std::min(kBlock, indices.size() - begin);
    const std::size_t bytes = 8 * words_for(count * width);
    if (width > 32 || bytes > in.left()) return WireError::kIndexSection;
    std::uint32_t* block = indices.data() + begin;
    kernels.unpack(in.at, in.end, 0, count, width, block);
    for (std::size_t i = 0; i < count; ++i) {
      next += block[i];
      block[i] = narrow(range.base + next++);
    }
    if (next > range.size) return WireError::kIndexRange;
    in.at += bytes;
  }
  return WireError::kNone;
}

void write_bitmap(Indices indices, Range range, std::byte* out) {
  const std::size_t words = words_for(range.size);
  std::size_t at = 0;
  std::uint64_t word = 0;
  for (const std::uint32_t index : indices) {
    const std::uint64_t bit = index - range.base;
    for (; at < bit / 64; word = 0) store_word(out, at++, word);
    word |= std::uint64_t{1} << (bit % 64);
  }
  for (; at < words; word = 0) store_word(out, at++, word);
}

WireError read_raw(Reader& in, Range range, std::span<std::uint32_t> indices) {
  for (std::uint32_t& index : indices) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, in.at, sizeof(raw));
    in.at += sizeof(raw);
    if (raw >= range.size) return WireError::kIndexRange;
    index = narrow(range.base + raw);
  }
  return WireError::kNone;
}

void write_raw(Indices indices, Range range, std::byte* out) {
  for (const std::uint32_t index : indices) {
    const std::uint32_t raw = index - narrow(range.base);
    std::memcpy(out, &raw, sizeof(raw));
    out += sizeof(raw);
  }
}

}  // namespace

std::size_t index_bytes(const WireKernels& kernels, IndexForm form,
                        Indices indices, Range range) {
  switch (form) {
    case IndexForm::kDense:
      return indices.size() == range.size ? 0 : kCannot;
    case IndexForm::kEliasFano:
      return EliasFanoShape(range.size, indices.size()).bytes();
    case IndexForm::kBitpack:
      return bitpack_bytes(kernels, indices, range);
    case IndexForm::kRows:
      return kCannot;
    case IndexForm::kBitmap:
      return 8 * words_for(range.size);
    case IndexForm::kRaw32:
      return 4 * indices.size();
  }
  return kCannot;
}

IndexForm smallest_form(const WireKernels& kernels, Indices indices,
                        Range range) {
  const CountedForm best = counted_form(range.size, indices.size());
  const std::size_t step = pack_step(pack_blocks(indices.size()));
  const auto wins = [&](std::size_t every) {
    return bitpack_bytes(kernels, indices, range, every) < best.bytes;
  };
  return wins(step) && (step == 1 || wins(1)) ? IndexForm::kBitpack : best.form;
}

void write_indices(const WireKernels& kernels, IndexForm form, Indices indices,
                   Range range, std::byte* out) {
  switch (form) {
    case IndexForm::kDense:
    case IndexForm::kRows:
      return;
    case IndexForm::kEliasFano:
      return write_elias_fano(kernels, indices, range, out);
    case IndexForm::kBitpack:
      return write_bitpack(kernels, indices, range, out);
    case IndexForm::kBitmap:
      return write_bitmap(indices, range, out);
    case IndexForm::kRaw32:
      return write_raw(indices, range, out);
  }
}

WireError read_indices(const WireKernels& kernels, IndexForm form, Reader& in,
                       Range range, std::span<std::uint32_t> indices) {
  switch (form) {
    case IndexForm::kDense:
      if (indices.size() != range.size) return WireError::kIndexSection;
      std::iota(indices.begin(), indices.end(), narrow(range.base));
      return WireError::kNone;
    case IndexForm::kEliasFano:
      return read_elias_fano(kernels, in, range, indices);
    case IndexForm::kBitpack:
      return read_bitpack(kernels, in, range, indices);
    case IndexForm::kRows:
      return WireError::kForm;
    case IndexForm::kBitmap: {
      const std::size_t words = words_for(range.size);
      if (8 * words > in.left()) return WireError::kIndexSection;
      const std::byte* map = in.at;
      in.at += 8 * words;
      return kernels.read_bitmap(map, words, narrow(range.base), indices.data(),
                                 indices.size())
                 ? WireError::kNone
                 : WireError::kIndexSection;
    }
    case IndexForm::kRaw32:
      if (4 * indices.size() > in.left()) return WireError::kIndexSection;
      return read_raw(in, range, indices);
  }
  return WireError::kForm;
}

}  // namespace sluice::cpu::wire
