#pragma once

#include "sluice/backend/cuda/wire_verdict.cuh"

// The headers of a message and where its sections are, by one block.

namespace sluice::cuda {

inline constexpr std::uint64_t kDirectChunk = 8 * kThreads;  // entries
inline constexpr std::uint64_t kPackChunk = kWarps;          // blocks

// The headers of all parts; returns the first failed check.
__device__ inline WireError read_parts(const DecodeArgs& a,
                                       const WireHeader& h) {
  std::uint64_t covered = 0;
  std::uint64_t entries = 0;
  for (std::uint32_t begin = 0; begin < h.parts; begin += kThreads) {
    const std::uint32_t p = begin + threadIdx.x;
    WirePart part;
    if (p < h.parts) {
      part = *a.at<WirePart>(sizeof(WireHeader) + p * sizeof(WirePart));
    }
    std::uint64_t all_segments = 0;
    std::uint64_t all_entries = 0;
    const std::uint64_t first =
        covered + block_before(std::uint64_t{part.segments}, &all_segments);
    const std::uint64_t entry =
        entries + block_before(part.count, &all_entries);
    // Behind a part that fails these sums mean nothing.
    const std::uint64_t left = first < a.count ? a.count - first : 0;
    WireError error = WireError::kNone;
    if (p < h.parts) {
      error = check_part(part, left, h.count - entry, [&](std::uint64_t n) {
        return a.segments[first + n].base - a.segments[first].base;
      });
    }
    const std::uint32_t bad = block_reduce(
        error == WireError::kNone
            ? ~0U
            : threadIdx.x << 8 | static_cast<std::uint32_t>(error),
        [](std::uint32_t x, std::uint32_t y) { return min_of(x, y); });
    if (bad != ~0U) return static_cast<WireError>(bad & 0xffU);
    if (p < h.parts) {
      ReadPart out;
      out.first = static_cast<std::uint32_t>(first);
      out.last = out.first + part.segments;
      out.base = a.segments[out.first].base;
      out.size = a.segments[out.last].base - out.base;
      out.entry = entry;
      out.count = part.count;
      out.index_form = static_cast<IndexForm>(part.index_form);
      out.value_form = static_cast<ValueForm>(part.value_form);
      a.parts[p] = out;
    }
    covered += all_segments;
    entries += all_entries;
  }
  __syncthreads();
  if (h.parts > 0 && covered != a.count) return WireError::kParts;
  return entries == h.count ? WireError::kNone : WireError::kCount;
}

// Where the blocks of bitpack are; returns the bytes of all, or kCannot if one
// is not there, and then part.blocks are those before it.
__device__ inline std::uint64_t place_pack_blocks(const DecodeArgs& a,
                                                  ReadPart& part,
                                                  std::uint64_t left) {
  const std::uint64_t blocks = pack_blocks(part.count);
  const std::uint64_t head = 8 * words_for(8 * blocks);
  part.blocks = 0;
  if (head > left) return kCannot;
  part.bits_at = part.at + head;
  std::uint64_t words = 0;
  for (std::uint64_t begin = 0; begin < blocks; begin += kThreads) {
    const std::uint64_t b = begin + threadIdx.x;
    const unsigned width = b < blocks ? *a.at<std::uint8_t>(part.at + b) : 0;
    const std::uint64_t entries =
        b < blocks ? min_of(kPackBlock, part.count - b * kPackBlock) : 0;
    std::uint64_t total = 0;
    const std::uint64_t mine = words_for(entries * width);
    const std::uint64_t before = words + block_before(mine, &total);
    const bool bad = width > 32 || 8 * (before + mine) > left - head;
    if (b < blocks && !bad) {
      a.offsets[part.slot + b] = static_cast<std::uint32_t>(before);
    }
    const unsigned first_bad =
        block_reduce(bad ? threadIdx.x : kThreads,
                     [](unsigned x, unsigned y) { return min_of(x, y); });
    part.blocks = min_of(begin + first_bad, blocks);
    if (first_bad < kThreads) return kCannot;
    words += total;
  }
  return head + 8 * words;
}

// Bytes of the index section; kCannot if it is not there or does not have the
// structure of its form. All threads get the same.
__device__ inline std::uint64_t place_indices(const DecodeArgs& a,
                                              ReadPart& part,
                                              std::uint64_t left) {
  std::uint64_t bytes = kCannot;
  part.bits_at = part.at;
  switch (part.index_form) {
    case IndexForm::kDense:
      if (part.count == part.size) bytes = 0;
      break;
    case IndexForm::kEliasFano: {
      const EliasFanoShape shape(part.size, part.count);
      part.low = shape.low;
      part.bits_at = part.at + 8 * shape.low_words;
      part.words = 2 * shape.high_words;
      bytes = shape.bytes();
      break;
    }
    case IndexForm::kBitpack:
      return place_pack_blocks(a, part, left);
    case IndexForm::kRows: {
      const WireSegment& first = a.segments[part.first];
      const WireSegment& last = a.segments[part.last];
      if (first.cannot_before == last.cannot_before &&
          last.entries_before - first.entries_before == part.count) {
        bytes = 8 * words_for(last.bits_before - first.bits_before);
      }
      break;
    }
    case IndexForm::kBitmap:
      part.words = 2 * words_for(part.size);
      bytes = 4 * part.words;
      break;
    case IndexForm::kRaw32:
      bytes = 4 * part.count;
      break;
  }
  return bytes > left ? kCannot : bytes;
}

__device__ inline std::uint64_t chunks_of(const ReadPart& part) {
  switch (part.index_form) {
    case IndexForm::kEliasFano:
    case IndexForm::kBitmap:
      return (part.words + kChunkWords - 1) / kChunkWords;
    case IndexForm::kBitpack:
      return (part.blocks + kPackChunk - 1) / kPackChunk;
    default:
      return (part.count + kDirectChunk - 1) / kDirectChunk;
  }
}

// One part's sections from byte `at` on, which moves behind them; the failure
// that ends the message there.
__device__ inline Count place_sections(const DecodeArgs& a, std::uint32_t p,
                                       ReadPart& part, std::uint64_t bytes,
                                       std::uint64_t& at) {
  for (; at % 8 != 0; ++at) {
    if (at == bytes || *a.at<std::uint8_t>(at) != 0) {
      return failure(p, Stage::kPadding, WireError::kLengths);
    }
  }
  part.at = at;
  const std::uint64_t index_bytes = place_indices(a, part, bytes - at);
  if (index_bytes == kCannot) {
    // Of bitpack what comes before is read all the same: its checks come first.
    if (part.index_form == IndexForm::kBitpack) part.chunks = chunks_of(part);
    return failure(p, Stage::kIndices, WireError::kIndexSection, part.blocks);
  }
  part.chunks = chunks_of(part);
  at += index_bytes;
  part.values_at = at;
  const std::uint64_t values =
      value_bytes(part.count, part.last - part.first, part.value_form);
  if (values > bytes - at) {
    return failure(p, Stage::kValueSection, WireError::kValueSection);
  }
  part.has_values = true;
  at += values;
  return kNoFailure;
}

__global__ void __launch_bounds__(kThreads) layout_kernel(DecodeArgs a) {
  DecodeHead head;
  head.bytes = message_bytes(a.bytes, a.size);
  WireHeader h;
  WireError error = WireError::kTruncated;
  if (head.bytes >= sizeof(h)) {
    h = *a.at<WireHeader>(0);
    error = check_header(h, head.bytes, a.elements, a.count, a.capacity);
  }
  if (error == WireError::kNone) error = read_parts(a, h);
  head.error = header_failure(error);
  if (error == WireError::kNone) {
    head.error = kNoFailure;
    head.checksum = h.checksum;
    head.count = h.count;
    head.parts = h.parts;
    std::uint64_t at = sizeof(h) + h.parts * sizeof(WirePart);
    std::uint64_t slot = 0;
    for (std::uint32_t p = 0; p < h.parts; ++p) {
      ReadPart part = a.parts[p];
      part.chunk = head.chunks;
      part.slot = slot;
      // Those behind the end of a message are not read.
      if (head.error == kNoFailure) {
        head.error = place_sections(a, p, part, head.bytes, at);
      }
      __syncthreads();
      if (threadIdx.x == 0) a.parts[p] = part;
      head.chunks += part.chunks;
      slot += pack_blocks(part.count);
    }
    if (head.error == kNoFailure && at != head.bytes) {
      head.error = left_failure();
    }
  }
  if (threadIdx.x == 0) *a.head = head;
}

}  // namespace sluice::cuda
