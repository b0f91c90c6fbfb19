#pragma once

#include "sluice/backend/cuda/wire_args.h"
#include "sluice/backend/cuda/wire_common.cuh"
#include "sluice/backend/cuda/wire_measure.cuh"
#include "sluice/core/half.h"

// The words of a message. Each is made by the thread that writes it, from all
// entries that have bits in it.

namespace sluice::cuda {

// A tile of kWireTile words that starts at word `first` of a section.
struct WordTile {
  std::uint32_t* out = nullptr;  // the section
  std::uint64_t first = 0;
  std::uint64_t words = 0;  // of the section

  __device__ std::uint64_t end() const {
    return min_of(first + kWireTile, words);
  }
};

template <class Word>
__device__ void write_words(const WordTile& tile, Word word) {
  for (std::uint64_t w = tile.first + lane(); w < tile.end(); w += 32) {
    tile.out[w] = word(w);
  }
}

// Numbers of `width` bits, one after another; get(i) has no more bits.
template <class Get>
__device__ void write_packed(const WordTile& tile, unsigned width,
                             std::uint64_t count, Get get) {
  if (width == 0) {
    write_words(tile, [](std::uint64_t) { return 0U; });
    return;
  }
  // A division of 64 bits for the tile, one of 32 for each word.
  const std::uint64_t entry = 32 * tile.first / width;
  const auto skip = static_cast<std::uint32_t>(32 * tile.first - entry * width);
  write_words(tile, [&](std::uint64_t w) {
    const auto bit = skip + 32 * static_cast<std::uint32_t>(w - tile.first);
    std::uint64_t i = entry + bit / width;
    unsigned have = 0;
    std::uint64_t word = 0;
    if (i < count) {
      word = static_cast<std::uint64_t>(get(i)) >> (bit % width);
      have = width - bit % width;
    }
    for (++i; have < 32 && i < count; ++i, have += width) {
      word |= static_cast<std::uint64_t>(get(i)) << have;
    }
    return static_cast<std::uint32_t>(word);
  });
}

// A bit string with a one at place(i) for each entry; places ascend.
template <class Place>
__device__ void write_ones(const WordTile& tile, std::uint64_t count,
                           Place place) {
  __shared__ std::uint32_t all_words[kWarps * kWireTile];
  std::uint32_t* words = all_words + warp() * kWireTile;
  const std::uint64_t begin = 32 * tile.first;
  const std::uint64_t end = begin + 32 * kWireTile;
  for (unsigned w = lane(); w < kWireTile; w += 32) words[w] = 0;
  __syncwarp();
  std::uint64_t i =
      warp_search(count, [&](std::uint64_t e) { return place(e) < begin; });
  for (bool more = true; more; i += 32) {
    const std::uint64_t e = i + lane();
    const std::uint64_t at = e < count ? place(e) : end;
    if (at < end) {
      atomicOr(words + (at - begin) / 32, 1U << static_cast<unsigned>(at % 32));
    }
    more = __ballot_sync(kAll, at < end) == kAll;
  }
  __syncwarp();
  write_words(tile, [&](std::uint64_t w) { return words[w - tile.first]; });
  __syncwarp();
}

// Positions of all segments of a part, each at its segment's width.
__device__ inline std::uint32_t position_word(const EncodeArgs& a,
                                              const CodedPart& part,
                                              std::uint64_t w) {
  const std::uint64_t begin = 32 * w + a.segments[part.first].bits_before;
  const std::uint64_t end = a.segments[part.last].bits_before;
  std::uint32_t s =
      part.first +
      last_at_most(a.segments + part.first, part.last - part.first, begin,
                   [](const WireSegment& x) { return x.bits_before; });
  std::uint64_t word = 0;
  std::uint64_t at = begin;
  while (at < min_of(begin + 32, end)) {
    const WireSegment& segment = a.segments[s];
    const std::uint64_t before = at - segment.bits_before;
    if (segment.bits == 0 || before >= segment.entries * segment.bits) {
      ++s;
      continue;
    }
    const std::uint64_t e = before / segment.bits;
    const auto skip = static_cast<unsigned>(before - e * segment.bits);
    const std::uint64_t position = a.positions[segment.entries_before + e];
    word |= position >> skip << (at - begin);
    at += segment.bits - skip;
  }
  return static_cast<std::uint32_t>(word);
}

__device__ inline void write_first(const EncodeArgs& a, const CodedPart& part,
                                   std::uint64_t t) {
  WordTile tile{a.out + part.at / 4, t * kWireTile,
                (part.values_at - part.at) / 4};
  const std::uint32_t* x = a.indices + part.entry;
  const auto base = static_cast<std::uint32_t>(part.base);
  switch (part.index_form) {
    case IndexForm::kEliasFano: {
      tile.words = part.low_words;
      const auto mask =
          static_cast<std::uint32_t>((std::uint64_t{1} << part.low) - 1);
      write_packed(tile, part.low, part.count,
                   [&](std::uint64_t i) { return (x[i] - base) & mask; });
      break;
    }
    case IndexForm::kBitpack: {
      const std::uint64_t blocks = pack_blocks(part.count);
      tile.words = 2 * words_for(8 * blocks);
      write_packed(tile, 8, blocks,
                   [&](std::uint64_t b) { return a.widths[part.unit + b]; });
      break;
    }
    case IndexForm::kRows:
      write_words(tile,
                  [&](std::uint64_t w) { return position_word(a, part, w); });
      break;
    case IndexForm::kRaw32:
      write_words(tile, [&](std::uint64_t i) { return x[i] - base; });
      break;
    default:
      break;
  }
}

__device__ inline void write_second(const EncodeArgs& a, const CodedPart& part,
                                    std::uint64_t t) {
  const std::uint32_t* x = a.indices + part.entry;
  const auto base = static_cast<std::uint32_t>(part.base);
  if (part.index_form == IndexForm::kBitpack) {
    const unsigned width = a.widths[part.unit + t];
    const std::uint64_t first = t * kPackBlock;
    const std::uint64_t count = min_of(kPackBlock, part.count - first);
    const std::uint64_t head = words_for(8 * pack_blocks(part.count));
    WordTile tile{a.out + part.at / 4 + 2 * (head + a.offsets[part.unit + t]),
                  0, 2 * words_for(count * width)};
    for (; tile.first < tile.words; tile.first += kWireTile) {
      write_packed(tile, width, count, [&](std::uint64_t i) {
        return delta_of(a, part, part.entry + first + i);
      });
    }
  } else {
    const bool map = part.index_form == IndexForm::kBitmap;
    const WordTile tile{a.out + part.at / 4 + part.low_words, t * kWireTile,
                        part.words};
    write_ones(tile, part.count, [&](std::uint64_t i) {
      return (std::uint64_t{x[i] - base} >> part.low) + (map ? 0 : i);
    });
  }
}

// Sixteen codes of two bits.
__device__ inline std::uint32_t code_word(const EncodeArgs& a,
                                          const CodedPart& part,
                                          std::uint64_t w) {
  const std::uint64_t begin = part.entry + 16 * w;
  const std::uint64_t end = min_of(begin + 16, part.entry + part.count);
  if (begin >= end) return 0;
  std::uint32_t s = segment_of_entry(a.starts, part.first, part.last, begin);
  std::uint32_t word = 0;
  for (std::uint64_t i = begin; i < end; ++i) {
    while (i >= a.starts[s + 1]) ++s;
    word |= code_of(a.tables + 4 * s, 4, a.values[i])
            << (2 * static_cast<unsigned>(i - begin));
  }
  return word;
}

__device__ inline std::uint16_t half_of(ValueForm form, float x) {
  return form == ValueForm::kBf16 ? to_bf16(x) : to_fp16(x);
}

__device__ inline void write_values(const EncodeArgs& a, const CodedPart& part,
                                    std::uint64_t t) {
  const WordTile tile{a.out + part.values_at / 4, t * kWireTile,
                      (part.end - part.values_at) / 4};
  const float* x = a.values + part.entry;
  const ValueForm form = part.value_form;
  switch (form) {
    case ValueForm::kFp32:
      write_words(tile, [&](std::uint64_t i) { return __float_as_uint(x[i]); });
      break;
    case ValueForm::kBf16:
    case ValueForm::kFp16:
      write_words(tile, [&](std::uint64_t w) {
        return half_of(form, x[2 * w]) |
               static_cast<std::uint32_t>(half_of(form, x[2 * w + 1])) << 16;
      });
      // One that has no other beside it.
      if (part.count % 2 != 0 && lane() == 0 &&
          (tile.words - tile.first) < kWireTile) {
        *reinterpret_cast<std::uint16_t*>(tile.out + tile.words) =
            half_of(form, x[part.count - 1]);
      }
      break;
    case ValueForm::kOne:
      write_words(tile, [&](std::uint64_t s) {
        return a.tables[4 * (part.first + s)];
      });
      break;
    case ValueForm::kTwoBit: {
      const std::uint64_t head = 4 * (part.last - part.first);
      write_words(tile, [&](std::uint64_t w) {
        return w < head ? a.tables[4 * part.first + w]
                        : code_word(a, part, w - head);
      });
      break;
    }
  }
}

__device__ inline void write_headers(const EncodeArgs& a) {
  const std::uint64_t t = thread_index();
  const std::uint32_t parts = a.head->parts;
  if (t == 0) {
    WireHeader header;
    header.parts = parts;
    header.dense_size = a.size;
    header.count = a.head->count;
    *reinterpret_cast<WireHeader*>(a.out) = header;
  }
  for (std::uint64_t p = t; p < parts; p += thread_count()) {
    const CodedPart& part = a.parts[p];
    WirePart sent;
    sent.segments = part.last - part.first;
    sent.index_form = static_cast<std::uint8_t>(part.index_form);
    sent.value_form = static_cast<std::uint8_t>(part.value_form);
    sent.count = part.count;
    std::uint32_t* at = a.out + (sizeof(WireHeader) + p * sizeof(sent)) / 4;
    *reinterpret_cast<WirePart*>(at) = sent;
    // Up to the next part; sections have an even number of bytes.
    if (p + 1 == parts) continue;
    auto* halves = reinterpret_cast<std::uint16_t*>(a.out);
    for (std::uint64_t i = part.end; i < a.parts[p + 1].at; i += 2) {
      halves[i / 2] = 0;
    }
  }
}

__global__ void __launch_bounds__(kThreads) write_kernel(EncodeArgs a) {
  const std::uint64_t total = a.head->total;
  if (thread_index() == 0) *a.written = total;
  if (total == 0) return;
  write_headers(a);
  const std::uint64_t tiles = a.head->tiles;
  const std::uint32_t parts = a.head->parts;
  for (std::uint64_t i = warp_index(); i < tiles; i += warp_count()) {
    const CodedPart& part = a.parts[last_at_most(
        a.parts, parts, i, [](const CodedPart& p) { return p.tile; })];
    std::uint64_t t = i - part.tile;
    if (t < part.first_tiles) {
      write_first(a, part, t);
      continue;
    }
    t -= part.first_tiles;
    if (t < part.second_tiles) {
      write_second(a, part, t);
    } else {
      write_values(a, part, t - part.second_tiles);
    }
  }
}

// The checksum, into a header in which it is 0.
__global__ void __launch_bounds__(kThreads) sum_kernel(EncodeArgs a) {
  const std::uint64_t total = a.head->total;
  if (total == 0) return;
  const auto* words = reinterpret_cast<const std::uint64_t*>(a.out);
  const WireChecksum sum = sum_words(words, total, ~std::uint64_t{0});
  add_sum(sum, &a.head->products, &a.head->words);
  if (!is_last_block(&a.head->summed) || threadIdx.x != 0) return;
  const WireChecksum all = {__ldcg(&a.head->products), __ldcg(&a.head->words)};
  reinterpret_cast<WireHeader*>(a.out)->checksum = all.fold(total);
}

}  // namespace sluice::cuda
