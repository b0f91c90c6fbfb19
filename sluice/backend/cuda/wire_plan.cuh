#pragma once

#include "sluice/backend/cuda/wire_args.h"
#include "sluice/backend/cuda/wire_common.cuh"

// Which segments travel together: the steps of cpu/wire_plan.cpp, by one block.

namespace sluice::cuda {

inline constexpr std::uint32_t kFilled = 1;   // has entries
inline constexpr std::uint32_t kByRows = 2;   // they go by rows
inline constexpr std::uint32_t kRowless = 4;  // has no rows
inline constexpr unsigned kFormShift = 3;

__device__ inline ValueForm form_of(std::uint32_t code) {
  return static_cast<ValueForm>(code >> kFormShift);
}

// Bytes of the positions of segments [first, last); kCannot if some do not have
// as many entries as their rows hold.
__device__ inline std::uint64_t row_bytes(const EncodeArgs& a,
                                          std::uint32_t first,
                                          std::uint32_t last) {
  if (a.mismatches[last] != a.mismatches[first]) return kCannot;
  return 8 * words_for(a.segments[last].bits_before -
                       a.segments[first].bits_before);
}

// Counts the segments that do not have k entries per row.
__device__ inline void count_mismatches(const EncodeArgs& a) {
  std::uint32_t before = 0;
  for (std::uint32_t begin = 0; begin < a.count; begin += kThreads) {
    const std::uint32_t s = begin + threadIdx.x;
    const bool differs =
        s < a.count && a.segments[s].entries != a.starts[s + 1] - a.starts[s];
    std::uint32_t total = 0;
    const std::uint32_t mine =
        before + block_before<std::uint32_t>(differs ? 1 : 0, &total);
    if (s < a.count) a.mismatches[s] = mine;
    before += total;
  }
  if (threadIdx.x == 0) a.mismatches[a.count] = before;
  __syncthreads();
}

__device__ inline void make_elements(const EncodeArgs& a) {
  for (std::uint32_t s = threadIdx.x; s < a.count; s += kThreads) {
    const WireSegment& segment = a.segments[s];
    const std::uint64_t count = a.starts[s + 1] - a.starts[s];
    bool rows = a.options.index_form == IndexForm::kRows;
    if (a.options.choose) {
      rows = count > 0 &&
             row_bytes(a, s, s + 1) < counted_form(segment.size, count).bytes;
    }
    a.elements[s] = {s, (count > 0 ? kFilled : 0) | (rows ? kByRows : 0) |
                            (segment.entries == 0 ? kRowless : 0) |
                            static_cast<std::uint32_t>(segment.values)
                                << kFormShift};
  }
  __syncthreads();
}

// Whether the forms are the same, or one is empty and can have any.
__device__ inline bool can_join(std::uint32_t part, std::uint32_t next) {
  if ((next & kFilled) == 0) {
    return (part & kByRows) == 0 || (next & kRowless) != 0;
  }
  if ((part & kFilled) == 0) {
    return (next & kByRows) == 0 || (part & kRowless) != 0;
  }
  return ((part ^ next) & ~kRowless) == 0;
}

// Joins neighbours; returns how many are left. By one warp, which looks at 32
// at a time.
__device__ inline std::uint32_t join_elements(const Element* in,
                                              std::uint32_t count,
                                              Element* out) {
  std::uint32_t parts = 0;
  for (std::uint32_t at = 0; at < count; ++parts) {
    Element part = in[at++];
    while (at < count) {
      const bool there = at + lane() < count;
      const std::uint32_t code = there ? in[at + lane()].code : 0;
      // An empty part becomes what it is joined by.
      const bool stops =
          !can_join(part.code, code) || ((~part.code & code & kFilled) != 0);
      const unsigned stop = __ballot_sync(kAll, there && stops);
      const unsigned some = __ballot_sync(kAll, there);
      const unsigned taken = stop == 0 ? some : (stop & (~stop + 1)) - 1;
      const bool rows = (taken >> lane() & 1U) != 0 && (code & kRowless) == 0;
      if (__any_sync(kAll, rows)) part.code &= ~kRowless;
      at += static_cast<std::uint32_t>(__popc(taken));
      if (stop == 0) continue;
      const std::uint32_t next = in[at].code;
      if (!can_join(part.code, next)) break;
      part.code = next & (part.code | ~kRowless);
      ++at;
    }
    if (lane() == 0) out[parts] = part;
  }
  __syncwarp();
  return parts;
}

// Segments of an element are those up to the next one's first.
__device__ inline std::uint64_t element_bytes(const EncodeArgs& a,
                                              std::uint32_t first,
                                              std::uint32_t last,
                                              std::uint32_t code) {
  const std::uint64_t count = a.starts[last] - a.starts[first];
  const std::uint64_t size = a.segments[last].base - a.segments[first].base;
  return value_bytes(count, last - first, form_of(code)) +
         ((code & kByRows) != 0 ? row_bytes(a, first, last)
                                : counted_form(size, count).bytes);
}

// A part whose neighbours could take it in, were it plainer, must save what the
// additional parts cost.
__device__ inline void drop_small(const EncodeArgs& a, Element* all,
                                  std::uint32_t count) {
  constexpr std::uint64_t kPartCost = sizeof(WirePart) + 16;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t first = all[i].first;
    const std::uint32_t last = i + 1 < count ? all[i + 1].first : a.count;
    std::uint32_t plain = all[i].code & ~kByRows;
    for (int round = 0; round < 2; ++round) {
      std::uint64_t joined = 0;
      if (i > 0 && can_join(all[i - 1].code, plain)) ++joined;
      if (i + 1 < count && can_join(plain, all[i + 1].code)) ++joined;
      if (joined > 0 &&
          element_bytes(a, first, last, all[i].code) + joined * kPartCost >=
              element_bytes(a, first, last, plain)) {
        all[i].code = plain;
      }
      plain &= (1U << kFormShift) - 1;  // fp32 is 0
    }
  }
}

// Numbers the parts' blocks of kPackBlock entries, and fills in the rest.
__device__ inline void make_parts(const EncodeArgs& a, const Element* all,
                                  std::uint32_t count) {
  std::uint64_t units = 0;
  bool outside = false;
  for (std::uint32_t begin = 0; begin < count; begin += kThreads) {
    const std::uint32_t i = begin + threadIdx.x;
    CodedPart part;
    if (i < count) {
      part.first = all[i].first;
      part.last = i + 1 < count ? all[i + 1].first : a.count;
      part.base = a.segments[part.first].base;
      part.size = a.segments[part.last].base - part.base;
      part.entry = a.starts[part.first];
      part.count = a.starts[part.last] - part.entry;
      part.value_form = form_of(all[i].code);
      part.index_form = (all[i].code & kByRows) != 0 ? IndexForm::kRows
                                                     : a.options.index_form;
      part.row_bytes = row_bytes(a, part.first, part.last);
      outside |=
          part.count > 0 &&
          (a.indices[part.entry] < part.base ||
           a.indices[part.entry + part.count - 1] - part.base >= part.size);
    }
    std::uint64_t total = 0;
    part.unit = units + block_before(pack_blocks(part.count), &total);
    if (i < count) a.parts[i] = part;
    units += total;
  }
  const bool fails = block_reduce(outside ? 1U : 0U,
                                  [](unsigned x, unsigned y) { return x | y; });
  if (threadIdx.x != 0) return;
  EncodeHead head;
  head.parts = count;
  head.count = a.starts[a.count];
  head.units = units;
  head.fails = fails ? 1 : 0;
  *a.head = head;
}

__global__ void __launch_bounds__(kThreads) plan_kernel(EncodeArgs a) {
  __shared__ std::uint32_t shared_count;
  if (a.too_large || a.starts[a.count] == 0) {
    if (threadIdx.x == 0) {
      *a.head = {};
      a.head->fails = a.too_large ? 1 : 0;
    }
    return;
  }
  count_mismatches(a);
  make_elements(a);
  if (warp() == 0) {
    Element* joined = a.elements + a.count;
    std::uint32_t count = join_elements(a.elements, a.count, joined);
    if (a.options.choose && count > 1) {
      if (lane() == 0) drop_small(a, joined, count);
      __syncwarp();
      count = join_elements(joined, count, a.elements);
      for (std::uint32_t i = lane(); i < count; i += 32) {
        joined[i] = a.elements[i];
      }
    }
    if (lane() == 0) shared_count = count;
  }
  __syncthreads();
  make_parts(a, a.elements + a.count, shared_count);
}

}  // namespace sluice::cuda
