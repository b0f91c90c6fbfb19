#pragma once

#include "sluice/backend/cuda/wire_args.h"
#include "sluice/backend/cuda/wire_common.cuh"

// What depends on the entries: the widths of bitpack, whether rows and tables
// can carry them. Then the forms and places of all sections.

namespace sluice::cuda {

// The values of each segment in the order in which they first occur, as many
// as a table holds. A block per segment.
__global__ void __launch_bounds__(kThreads) tables_kernel(EncodeArgs a) {
  for (std::uint32_t s = blockIdx.x; s < a.count; s += gridDim.x) {
    const ValueForm form = a.segments[s].values;
    const std::uint64_t end = a.starts[s + 1];
    std::uint64_t next = a.starts[s];
    std::uint32_t table[4] = {};
    const unsigned size = form == ValueForm::kTwoBit ? 4
                          : form == ValueForm::kOne  ? 1
                                                     : 0;
    for (unsigned used = 0; used < size && next < end; ++used) {
      table[used] = __float_as_uint(a.values[next]);
      // The first that is none of these, one stretch after another.
      std::uint64_t found = end;
      for (std::uint64_t at = next; at < end && used + 1 < size;
           at += kThreads) {
        const std::uint64_t i = at + threadIdx.x;
        bool is_new = i < end;
        for (unsigned u = 0; is_new && u <= used; ++u) {
          is_new = __float_as_uint(a.values[i]) != table[u];
        }
        found = block_reduce(
            is_new ? i : end,
            [](std::uint64_t x, std::uint64_t y) { return min_of(x, y); });
        if (found < end) break;
      }
      next = found;
    }
    // An empty segment may be part of one with another form.
    if (threadIdx.x < 4) a.tables[4 * s + threadIdx.x] = table[threadIdx.x];
  }
}

// The code of a value in a table; 4 if it is not there.
__device__ inline unsigned code_of(const std::uint32_t* table, unsigned size,
                                   float value) {
  unsigned code = 0;
  while (code < size && table[code] != __float_as_uint(value)) ++code;
  return code < size ? code : 4;
}

__device__ inline std::uint32_t delta_of(const EncodeArgs& a,
                                         const CodedPart& part,
                                         std::uint64_t i) {
  return i == part.entry ? a.indices[i] - static_cast<std::uint32_t>(part.base)
                         : a.indices[i] - a.indices[i - 1] - 1;
}

// The position of entry i in its row, for rows whose entries follow each other;
// false if it is in another one.
__device__ inline bool set_position(const EncodeArgs& a, std::uint32_t s,
                                    std::uint64_t i) {
  const WireSegment& segment = a.segments[s];
  if (segment.strided) return a.bad[s] == 0;
  const std::uint64_t e = i - a.starts[s];
  const RowPlace place = place_of(segment, e);
  const std::uint64_t position = a.indices[i] - segment.base - place.start;
  a.positions[segment.entries_before + e] =
      static_cast<std::uint32_t>(position);
  return position < place.runs;
}

// What a warp has found of a part and not yet said.
struct Measured {
  std::uint32_t part = 0;
  std::uint64_t words = 0;
  std::uint64_t sample = 0;
  bool not_rows = false;
  bool not_table = false;

  __device__ void tell(CodedPart& p) {
    if (lane() == 0 && words > 0) {
      atomicAdd(&p.pack_words, static_cast<Count>(words));
    }
    if (lane() == 0 && sample > 0) {
      atomicAdd(&p.sample_words, static_cast<Count>(sample));
    }
    const bool rows = __any_sync(kAll, not_rows);
    const bool table = __any_sync(kAll, not_table);
    if (lane() == 0 && rows) atomicOr(&p.not_rows, 1U);
    if (lane() == 0 && table) atomicOr(&p.not_table, 1U);
    *this = {};
  }
};

__device__ inline void measure_unit(const EncodeArgs& a, const CodedPart& part,
                                    std::uint64_t unit, Measured& found) {
  const std::uint64_t b = unit - part.unit;
  const std::uint64_t first = part.entry + b * kPackBlock;
  const std::uint64_t end = min_of(first + kPackBlock, part.entry + part.count);
  const bool rows =
      part.index_form == IndexForm::kRows && part.row_bytes != kCannot;
  const bool table = part.value_form == ValueForm::kOne ||
                     part.value_form == ValueForm::kTwoBit;
  const unsigned size = part.value_form == ValueForm::kOne ? 1 : 4;
  std::uint32_t bits = 0;
  for (std::uint64_t i = first + lane(); i < end; i += 32) {
    bits |= delta_of(a, part, i);
    if (!rows && !table) continue;
    const std::uint32_t s =
        segment_of_entry(a.starts, part.first, part.last, i);
    if (rows && !set_position(a, s, i)) found.not_rows = true;
    if (table && code_of(a.tables + 4 * s, size, a.values[i]) == 4) {
      found.not_table = true;
    }
  }
  const unsigned width = bit_width_of(__reduce_or_sync(kAll, bits));
  const std::uint64_t words = words_for((end - first) * width);
  if (lane() == 0) a.widths[unit] = static_cast<std::uint8_t>(width);
  found.words += words;
  if (b % pack_step(pack_blocks(part.count)) == 0) found.sample += words;
}

// Each warp takes units that follow each other, so that it has little to tell.
__device__ inline void measure(const EncodeArgs& a) {
  const std::uint64_t units = a.head->units;
  const std::uint32_t parts = a.head->parts;
  const std::uint64_t each = (units + warp_count() - 1) / warp_count();
  const std::uint64_t begin = warp_index() * each;
  const std::uint64_t end = min_of(begin + each, units);
  Measured found;
  for (std::uint64_t unit = begin; unit < end; ++unit) {
    // Empty parts share their number with the next one.
    const std::uint32_t p = last_at_most(
        a.parts, parts, unit, [](const CodedPart& part) { return part.unit; });
    if (p != found.part) found.tell(a.parts[found.part]);
    found.part = p;
    measure_unit(a, a.parts[p], unit, found);
  }
  if (begin < end) found.tell(a.parts[found.part]);
}

// The form of a part that does not go by rows, and its bytes.
__device__ inline void choose_plain(const EncodeArgs& a, CodedPart& part) {
  const std::uint64_t blocks = pack_blocks(part.count);
  const std::uint64_t step = pack_step(blocks);
  const std::uint64_t packed = pack_bytes(blocks, blocks, part.pack_words);
  CountedForm best = counted_form(part.size, part.count);
  if (a.options.choose) {
    const std::uint64_t measured = (blocks + step - 1) / step;
    if (pack_bytes(blocks, measured, part.sample_words) < best.bytes &&
        packed < best.bytes) {
      best = {IndexForm::kBitpack, packed};
    }
  } else {
    best = {a.options.index_form, kCannot};
    switch (best.form) {
      case IndexForm::kDense:
        if (part.count == part.size) best.bytes = 0;
        break;
      case IndexForm::kEliasFano:
        best.bytes = EliasFanoShape(part.size, part.count).bytes();
        break;
      case IndexForm::kBitpack:
        best.bytes = packed;
        break;
      case IndexForm::kRows:
        break;
      case IndexForm::kBitmap:
        best.bytes = 8 * words_for(part.size);
        break;
      case IndexForm::kRaw32:
        best.bytes = 4 * part.count;
        break;
    }
  }
  part.plain_form = best.form;
  part.plain_bytes = best.bytes;
}

// Numbers the tiles of a part that has its place; returns how many.
__device__ inline std::uint64_t number_tiles(CodedPart& part) {
  const auto tiles = [](std::uint64_t words) {
    return (words + kWireTile - 1) / kWireTile;
  };
  const std::uint64_t blocks = pack_blocks(part.count);
  switch (part.index_form) {
    case IndexForm::kDense:
      break;
    case IndexForm::kEliasFano: {
      const EliasFanoShape shape(part.size, part.count);
      part.low = shape.low;
      part.low_words = 2 * shape.low_words;
      part.words = 2 * shape.high_words;
      part.first_tiles = tiles(part.low_words);
      part.second_tiles = tiles(part.words);
      break;
    }
    case IndexForm::kBitpack:
      part.first_tiles = tiles(2 * words_for(8 * blocks));
      part.second_tiles = blocks;
      break;
    case IndexForm::kRows:
    case IndexForm::kRaw32:
      part.first_tiles = tiles((part.values_at - part.at) / 4);
      break;
    case IndexForm::kBitmap:
      part.words = 2 * words_for(part.size);
      part.second_tiles = tiles(part.words);
      break;
  }
  return part.first_tiles + part.second_tiles +
         tiles((part.end - part.values_at + 3) / 4);
}

// Places one part behind byte `at`; false if it does not fit or no form can
// carry it.
__device__ inline bool place_part(const EncodeArgs& a, CodedPart& part,
                                  std::uint64_t& at) {
  at = (at + 7) / 8 * 8;
  if (at > a.capacity) return false;
  const std::uint64_t room = a.capacity - at;
  std::uint64_t bytes = part.row_bytes;
  if (part.index_form != IndexForm::kRows || part.not_rows != 0 ||
      bytes > room) {
    part.index_form = part.plain_form;
    bytes = part.plain_bytes;
  }
  if (bytes > room) return false;
  part.at = at;
  part.values_at = at + bytes;
  const std::uint32_t segments = part.last - part.first;
  const std::uint64_t plain = 4 * part.count;
  std::uint64_t values = value_bytes(part.count, segments, part.value_form);
  if (values >= plain || part.not_table != 0) {
    part.value_form = ValueForm::kFp32;
    values = plain;
  }
  if (values > room - bytes) return false;
  at = part.end = part.values_at + values;
  return true;
}

// Where each block of a part's bitpack starts.
__device__ inline void place_blocks(const EncodeArgs& a,
                                    const CodedPart& part) {
  std::uint32_t before = 0;
  const std::uint64_t blocks = pack_blocks(part.count);
  for (std::uint64_t begin = 0; begin < blocks; begin += kThreads) {
    const std::uint64_t b = begin + threadIdx.x;
    std::uint32_t words = 0;
    if (b < blocks) {
      const std::uint64_t entries =
          min_of(kPackBlock, part.count - b * kPackBlock);
      words = static_cast<std::uint32_t>(
          words_for(entries * __ldcg(a.widths + part.unit + b)));
    }
    std::uint32_t total = 0;
    const std::uint32_t mine = before + block_before(words, &total);
    if (b < blocks) a.offsets[part.unit + b] = mine;
    before += total;
  }
}

// By the block that measured last.
__device__ inline void lay_out(const EncodeArgs& a) {
  const std::uint32_t parts = a.head->parts;
  for (std::uint32_t p = threadIdx.x; p < parts; p += kThreads) {
    CodedPart& part = a.parts[p];
    part.pack_words = __ldcg(&part.pack_words);
    part.sample_words = __ldcg(&part.sample_words);
    part.not_rows = __ldcg(&part.not_rows);
    part.not_table = __ldcg(&part.not_table);
    choose_plain(a, part);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint64_t at = sizeof(WireHeader) + parts * sizeof(WirePart);
    bool fits = a.head->fails == 0 && at <= a.capacity;
    std::uint64_t tiles = 0;
    for (std::uint32_t p = 0; p < parts && fits; ++p) {
      CodedPart& part = a.parts[p];
      fits = place_part(a, part, at);
      if (!fits) break;
      part.tile = tiles;
      tiles += number_tiles(part);
    }
    a.head->total = fits ? at : 0;
    a.head->tiles = fits ? tiles : 0;
  }
  __syncthreads();
  if (a.head->total == 0) return;
  for (std::uint32_t p = 0; p < parts; ++p) {
    const CodedPart& part = a.parts[p];
    if (part.index_form == IndexForm::kBitpack) place_blocks(a, part);
  }
}

__global__ void __launch_bounds__(kThreads) measure_kernel(EncodeArgs a) {
  measure(a);
  if (is_last_block(&a.head->measured)) lay_out(a);
}

}  // namespace sluice::cuda
