#pragma once

#include "sluice/backend/cuda/row_lists.cuh"

// Rows that interleave: a block keeps slabs of them in shared memory.

namespace sluice::cuda {

// Slabs in shared memory: their elements, NaN where they are not finite, and a
// bit for each that is selected, from a word of its own on for every slab.
struct SlabRoom {
  alignas(16) float values[kSlabRoom];
  std::uint32_t bits[kSlabRoom / 32 + kWarps];
  std::uint32_t bad[kWarps];
};

// The row of a slab that begins at its element `first`, of at most 32 * kEach.
// By one warp.
template <unsigned kEach>
__device__ __forceinline__ void select_slab_row(const RowGeometry& rows,
                                                std::uint32_t first,
                                                const float* values,
                                                std::uint32_t* bits) {
  const auto length = static_cast<std::uint32_t>(rows.length);
  const auto stride = static_cast<std::uint32_t>(rows.stride);
  float x[kEach];
  std::uint32_t highest = 0;
#pragma unroll
  for (unsigned j = 0; j < kEach; ++j) {
    const std::uint32_t i = j * 32 + lane();
    x[j] = i < length ? values[first + i * stride] : __builtin_nanf("");
    if (x[j] == x[j]) highest = max_of(highest, magnitude_key(x[j]));
  }
  const auto k = static_cast<unsigned>(rows.k);
  const auto at = [&](unsigned j) { return x[j]; };
  const auto place = [&](unsigned j) {
    return first + (j * 32 + lane()) * stride;
  };
  const auto value = [&](std::uint32_t where) { return values[where]; };
  const auto take = [&](unsigned, std::uint32_t where, float) {
    atomicOr(bits + where / 32, 1U << (where % 32));
  };
  if (take_few<WarpTeam, kEach>(at, place, value, highest, k, take) ==
      kTooMany) {
    take_many<WarpTeam, kEach, 1>(at, place, highest, k, take);
  }
}

// Accumulates `count` elements from `begin` on to the memory and to `room`.
__device__ inline void load_slabs(const SelectArgs& a, const Segment& s,
                                  std::uint64_t begin, std::uint32_t count,
                                  std::uint32_t size, SlabRoom& room) {
  const auto* g4 = reinterpret_cast<const float4*>(s.task.gradient + begin);
  auto* r4 = reinterpret_cast<float4*>(s.task.memory + begin);
  auto* to = reinterpret_cast<float4*>(room.values);
  constexpr unsigned kAhead = 4;
  for (std::uint32_t from = threadIdx.x; from < count / 4;
       from += kAhead * kThreads) {
    float4 x[kAhead];
#pragma unroll
    for (unsigned j = 0; j < kAhead; ++j) {
      const std::uint32_t quad = from + j * kThreads;
      if (quad < count / 4) x[j] = accumulated(a, g4[quad], r4[quad]);
    }
#pragma unroll
    for (unsigned j = 0; j < kAhead; ++j) {
      const std::uint32_t quad = from + j * kThreads;
      if (quad >= count / 4) break;
      if (high_key(x[j]) < kInfKey) {
        r4[quad] = x[j];
      } else {
        for (unsigned c = 0; c < 4; ++c) {
          if (magnitude_key(element(x[j], c)) < kInfKey) continue;
          atomicAdd(room.bad + (4 * quad + c) / size, 1U);
        }
        hide_bad(x[j]);
        store_finite(r4 + quad, x[j]);
      }
      to[quad] = x[j];
    }
  }
}

// The selected entries of a slab, in order; by one warp. They leave the memory,
// which begins at the slab. Returns how many there are.
__device__ inline unsigned list_slab(std::uint32_t index, std::uint32_t words,
                                     const std::uint32_t* bits,
                                     const float* values, float* memory,
                                     Entry* out) {
  unsigned done = 0;
  for (std::uint32_t at = 0; at < words; at += 32) {
    const std::uint32_t i = at + lane();
    std::uint32_t word = i < words ? bits[i] : 0;
    unsigned total = 0;
    unsigned o =
        done + warp_before(static_cast<unsigned>(__popc(word)), &total);
    for (; word != 0; word &= word - 1) {
      const std::uint32_t place =
          i * 32 + static_cast<unsigned>(__ffs(word)) - 1;
      out[o++] = {index + place, values[place]};
      memory[place] = 0;
    }
    done += total;
  }
  return done;
}

// Some slabs of interleaved rows. By one block.
__device__ inline void select_slabs(const SelectArgs& a, std::uint32_t segment,
                                    std::uint64_t unit) {
  __shared__ SlabRoom room;
  const Segment& s = a.segments[segment];
  const RowGeometry& rows = s.task.rows;
  const std::uint32_t size = slab_size(rows);
  const std::uint32_t words = (size + 31) / 32;
  const std::uint64_t first = unit * slabs_at_a_time(rows, Lists::kSlabs);
  const auto slabs = static_cast<std::uint32_t>(min_of<std::uint64_t>(
      slabs_at_a_time(rows, Lists::kSlabs), rows.slabs - first));
  __syncthreads();  // the last unit's are done with
  for (unsigned i = threadIdx.x; i < slabs * words; i += kThreads) {
    room.bits[i] = 0;
  }
  if (threadIdx.x < kWarps) room.bad[threadIdx.x] = 0;
  __syncthreads();
  load_slabs(a, s, first * size, slabs * size, size, room);
  __syncthreads();
  const auto stride = static_cast<std::uint32_t>(rows.stride);
  for (std::uint32_t row = warp(); row < slabs * stride; row += kWarps) {
    const std::uint32_t slab = row / stride;
    const float* values = room.values + slab * size;
    std::uint32_t* bits = room.bits + slab * words;
    if (rows.length <= 128) {
      select_slab_row<4>(rows, row % stride, values, bits);
    } else if (rows.length <= 512) {
      select_slab_row<16>(rows, row % stride, values, bits);
    } else {
      select_slab_row<32>(rows, row % stride, values, bits);
    }
  }
  __syncthreads();
  if (warp() >= slabs) return;
  const std::uint64_t slab = first + warp();
  const auto most = static_cast<unsigned>(rows.k) * stride;
  Entry* out = a.candidates + s.row_slots + slab * most;
  const unsigned taken =
      list_slab(s.task.base + static_cast<std::uint32_t>(slab * size), words,
                room.bits + warp() * words, room.values + warp() * size,
                s.task.memory + slab * size, out);
  const unsigned bad = room.bad[warp()];
  if (bad == 0 && taken == most) return;
  for (unsigned e = taken + lane(); e < most; e += 32) out[e] = {kNoEntry, 0};
  if (lane() == 0) report_row(a.works[segment], bad, most - taken);
}

}  // namespace sluice::cuda
