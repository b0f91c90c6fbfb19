#pragma once

#include "sluice/backend/cuda/wire_layout.cuh"
#include "sluice/core/half.h"
#include "sluice/core/key.h"

// The entries of a message, chunk by chunk of its sections.

namespace sluice::cuda {

// A number of `width` <= 32 bits at bit `at` of a bit string.
__device__ inline std::uint32_t bits_at(const std::uint32_t* words,
                                        std::uint64_t at, unsigned width) {
  if (width == 0) return 0;
  const auto skip = static_cast<unsigned>(at % 32);
  std::uint64_t both = words[at / 32];
  if (skip + width > 32) {
    both |= static_cast<std::uint64_t>(words[at / 32 + 1]) << 32;
  }
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  return static_cast<std::uint32_t>(both >> skip & mask);
}

__device__ inline std::uint32_t part_of_chunk(const DecodeArgs& a,
                                              std::uint64_t c) {
  return last_at_most(a.parts, a.head->parts, c,
                      [](const ReadPart& p) { return p.chunk; });
}

__device__ inline bool is_finite(float x) { return magnitude_key(x) < kInfKey; }

// Value i of a part, whose index is x.
__device__ inline float value_at(const DecodeArgs& a, std::uint32_t p,
                                 const ReadPart& part, std::uint64_t i,
                                 std::uint32_t x) {
  float value = 0;
  bool checked = true;
  switch (part.value_form) {
    case ValueForm::kFp32:
      value = a.at<float>(part.values_at)[i];
      checked = !a.segments[part.first].sums;
      break;
    case ValueForm::kBf16:
      value = from_bf16(a.at<std::uint16_t>(part.values_at)[i]);
      break;
    case ValueForm::kFp16:
      value = from_fp16(a.at<std::uint16_t>(part.values_at)[i]);
      break;
    case ValueForm::kOne:
    case ValueForm::kTwoBit: {
      const std::uint32_t s =
          segment_of(a.segments, part.first, part.last, x) - part.first;
      const bool one = part.value_form == ValueForm::kOne;
      const std::uint32_t* codes =
          a.at<std::uint32_t>(part.values_at) + 4 * (part.last - part.first);
      const std::uint32_t code = one ? 0 : bits_at(codes, 2 * i, 2);
      value = a.at<float>(part.values_at)[one ? s : 4 * s + code];
      checked = false;  // whole tables are
      break;
    }
  }
  if (checked && !is_finite(value)) {
    fail(a, failure(p, Stage::kValues, WireError::kValueFinite));
  }
  return value;
}

// Entry i of a part has index x.
__device__ inline void put_entry(const DecodeArgs& a, std::uint32_t p,
                                 const ReadPart& part, std::uint64_t i,
                                 std::uint32_t x) {
  a.indices[part.entry + i] = x;
  if (part.has_values) {
    a.values[part.entry + i] = value_at(a, p, part, i, x);
  }
}

// What a thread's entries of a block of bitpack add up to: each is one more
// than its distance.
__device__ inline std::uint64_t pack_sum(const DecodeArgs& a,
                                         const ReadPart& part,
                                         std::uint64_t b) {
  const unsigned width = *a.at<std::uint8_t>(part.at + b);
  const auto* words = a.at<std::uint32_t>(part.bits_at) +
                      2 * std::uint64_t{a.offsets[part.slot + b]};
  const std::uint64_t entries = min_of(kPackBlock, part.count - b * kPackBlock);
  std::uint64_t sum = 0;
  for (std::uint64_t i = lane(); i < entries; i += 32) {
    sum += std::uint64_t{bits_at(words, i * width, width)} + 1;
  }
  return sum;
}

// What must be known of a chunk before those behind it can be read: the ones of
// a bit string, the sum of bitpack's distances.
__device__ inline void sum_chunk(const DecodeArgs& a, std::uint64_t c) {
  const ReadPart& part = a.parts[part_of_chunk(a, c)];
  std::uint64_t sum = 0;
  if (part.index_form == IndexForm::kBitpack) {
    const std::uint64_t b = (c - part.chunk) * kPackChunk + warp();
    if (b < part.blocks) sum = pack_sum(a, part, b);
  } else if (part.words > 0) {
    const std::uint64_t w = (c - part.chunk) * kChunkWords + threadIdx.x;
    if (w < part.words) {
      sum = static_cast<unsigned>(__popc(a.at<std::uint32_t>(part.bits_at)[w]));
    }
  } else {
    return;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) a.sums[c] = sum;
}

__device__ inline std::uint64_t sum_before(const DecodeArgs& a,
                                           const ReadPart& part,
                                           std::uint64_t c) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = part.chunk + threadIdx.x; i < c; i += kThreads) {
    sum += a.sums[i];
  }
  return block_sum(sum);
}

// Elias-fano and bitmap: the ones of a chunk, then an entry for each.
__device__ inline void read_ones(const DecodeArgs& a, std::uint32_t p,
                                 const ReadPart& part, std::uint64_t c) {
  const std::uint64_t before = sum_before(a, part, c);
  const std::uint64_t number = c - part.chunk;
  const std::uint64_t w = number * kChunkWords + threadIdx.x;
  std::uint32_t word =
      w < part.words ? a.at<std::uint32_t>(part.bits_at)[w] : 0;
  unsigned total = 0;
  unsigned rank = block_before(static_cast<unsigned>(__popc(word)), &total);
  __shared__ std::uint16_t ones[kChunkBits];
  for (; word != 0; word &= word - 1) {
    ones[rank++] = static_cast<std::uint16_t>(
        32 * threadIdx.x + static_cast<unsigned>(__ffs(word)) - 1);
  }
  __syncthreads();
  const bool map = part.index_form == IndexForm::kBitmap;
  const auto base = static_cast<std::uint32_t>(part.base);
  for (unsigned e = threadIdx.x; e < total; e += kThreads) {
    const std::uint64_t i = before + e;
    if (i >= part.count) break;
    const std::uint64_t at = number * kChunkBits + ones[e];
    if (map) {
      put_entry(a, p, part, i, base + static_cast<std::uint32_t>(at));
      continue;
    }
    // The i-th one stands at its high part plus i.
    const std::uint64_t high = at - i;
    const std::uint32_t low =
        bits_at(a.at<std::uint32_t>(part.at), i * part.low, part.low);
    put_entry(a, p, part, i,
              base + static_cast<std::uint32_t>(high << part.low) + low);
    if (i + 1 == part.count && high > (part.size - 1) >> part.low) {
      fail(a, failure(p, Stage::kIndices, WireError::kIndexRange, 0, true));
    }
  }
  if (threadIdx.x == 0 && number + 1 == part.chunks &&
      before + total != part.count) {
    fail(a, failure(p, Stage::kIndices, WireError::kIndexSection));
  }
  __syncthreads();
}

// A block of bitpack per warp.
__device__ inline void read_pack(const DecodeArgs& a, std::uint32_t p,
                                 const ReadPart& part, std::uint64_t c) {
  __shared__ std::uint64_t sums[kWarps];
  std::uint64_t next = sum_before(a, part, c);
  const std::uint64_t b = (c - part.chunk) * kPackChunk + warp();
  const bool there = b < part.blocks;
  const std::uint64_t sum = warp_sum(there ? pack_sum(a, part, b) : 0);
  if (lane() == 0) sums[warp()] = sum;
  __syncthreads();
  for (unsigned w = 0; w < warp(); ++w) next += sums[w];
  __syncthreads();
  if (!there) return;
  if (lane() == 0 && next + sum > part.size) {
    fail(a, failure(p, Stage::kIndices, WireError::kIndexRange, b, true));
  }
  const unsigned width = *a.at<std::uint8_t>(part.at + b);
  const auto* words = a.at<std::uint32_t>(part.bits_at) +
                      2 * std::uint64_t{a.offsets[part.slot + b]};
  const std::uint64_t first = b * kPackBlock;
  const std::uint64_t entries = min_of(kPackBlock, part.count - first);
  for (std::uint64_t begin = 0; begin < entries; begin += 32) {
    const std::uint64_t i = begin + lane();
    const std::uint64_t distance =
        i < entries ? bits_at(words, i * width, width) : 0;
    std::uint64_t total = 0;
    const std::uint64_t before =
        warp_before(i < entries ? distance + 1 : 0, &total);
    if (i < entries) {
      put_entry(
          a, p, part, first + i,
          static_cast<std::uint32_t>(part.base + next + before + distance));
    }
    next += total;
  }
}

// Forms whose entries stand by themselves.
__device__ inline void read_direct(const DecodeArgs& a, std::uint32_t p,
                                   const ReadPart& part, std::uint64_t c) {
  const std::uint64_t begin = (c - part.chunk) * kDirectChunk;
  const std::uint64_t end = min_of(begin + kDirectChunk, part.count);
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    std::uint64_t x = i;
    if (part.index_form == IndexForm::kRaw32) {
      x = a.at<std::uint32_t>(part.at)[i];
      if (x >= part.size) {
        fail(a, failure(p, Stage::kIndices, WireError::kIndexRange));
      }
    }
    put_entry(a, p, part, i, static_cast<std::uint32_t>(part.base + x));
  }
}

}  // namespace sluice::cuda
