#pragma once

#include <cuda_runtime.h>

#include "sluice/backend/pass.h"
#include "sluice/core/half.h"

// What the kernels of the passes are given, an array of them each.

namespace sluice::cuda {

// A tensor of a bucket.
struct Place {
  TensorView view;
  const float* residual = nullptr;
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  bool flat = false;  // element i stands at data[i]

  __device__ std::uint64_t offset(std::uint64_t i) const {
    if (flat) return i;
    std::ptrdiff_t at = 0;
    for (std::size_t d = view.rank; d-- > 0;) {
      at += static_cast<std::ptrdiff_t>(i % view.dims[d]) * view.strides[d];
      i /= view.dims[d];
    }
    return static_cast<std::uint64_t>(at);
  }
  __device__ float load(std::uint64_t i) const {
    const std::uint64_t at = offset(i);
    if (view.dtype == DType::kFp32)
      return static_cast<const float*>(view.data)[at];
    const std::uint16_t half = static_cast<const std::uint16_t*>(view.data)[at];
    return view.dtype == DType::kBf16 ? from_bf16(half) : from_fp16(half);
  }
  __device__ void store(std::uint64_t i, float x) const {
    const std::uint64_t at = offset(i);
    if (view.dtype == DType::kFp32) {
      static_cast<float*>(view.data)[at] = x;
    } else {
      static_cast<std::uint16_t*>(view.data)[at] =
          view.dtype == DType::kBf16 ? to_bf16(x) : to_fp16(x);
    }
  }
};

// One tensor's part of the momentum kernels.
struct Moving {
  MomentumTask task;
  std::uint64_t base = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
};

// One segment's entries on their way to a narrower form.
struct Rounding {
  float* memory = nullptr;
  std::uint32_t base = 0;
  ValueForm form = ValueForm::kFp32;
};

}  // namespace sluice::cuda
