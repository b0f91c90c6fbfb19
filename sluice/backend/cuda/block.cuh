#pragma once

#include <cstdint>

#include "sluice/backend/cuda/runtime.h"

// What the threads of a block do together. All of them call.

namespace sluice::cuda {

inline constexpr unsigned kWarps = kThreads / 32;
inline constexpr unsigned kAll = 0xffffffffU;

// Shared memory for one use at a time, by the whole block.
inline constexpr unsigned kSharedWords = 10240;
__device__ inline std::uint32_t* shared_words() {
  alignas(16) __shared__ std::uint32_t words[kSharedWords];
  return words;
}

__device__ inline unsigned lane() { return threadIdx.x & 31U; }
__device__ inline unsigned warp() { return threadIdx.x >> 5; }

template <class T, class Op>
__device__ T warp_reduce(T x, Op op) {
  for (int d = 16; d > 0; d /= 2) x = op(x, __shfl_xor_sync(kAll, x, d));
  return x;
}

template <class T>
__device__ T warp_sum(T x) {
  return warp_reduce(x, [](T a, T b) { return a + b; });
}

// The sum of the lanes before this one.
template <class T>
__device__ T warp_before(T x, T* total = nullptr) {
  T sum = x;
  for (unsigned d = 1; d < 32; d *= 2) {
    const T other = __shfl_up_sync(kAll, sum, d);
    if (lane() >= d) sum += other;
  }
  if (total != nullptr) *total = __shfl_sync(kAll, sum, 31);
  return sum - x;
}

template <class T, class Op>
__device__ T block_reduce(T x, Op op) {
  __shared__ T parts[kWarps];
  x = warp_reduce(x, op);
  if (lane() == 0) parts[warp()] = x;
  __syncthreads();
  T out = parts[0];
  for (unsigned w = 1; w < kWarps; ++w) out = op(out, parts[w]);
  __syncthreads();
  return out;
}

template <class T>
__device__ T block_sum(T x) {
  return block_reduce(x, [](T a, T b) { return a + b; });
}

// The sum over the threads before this one, and over all.
template <class T>
__device__ T block_before(T x, T* total) {
  __shared__ T parts[kWarps];
  T mine = T{};
  const T before = warp_before(x, &mine);
  if (lane() == 0) parts[warp()] = mine;
  __syncthreads();
  T out = before;
  T all = T{};
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w < warp()) out += parts[w];
    all += parts[w];
  }
  __syncthreads();
  *total = all;
  return out;
}

}  // namespace sluice::cuda
