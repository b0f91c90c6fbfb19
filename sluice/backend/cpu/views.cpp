// Tensors of any strides and type as plain floats, and back.

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/backend/cpu/bucket_passes.h"
#include "sluice/core/half.h"

namespace sluice::cpu {
namespace {

// memcpy throughout: a view may be misaligned.
float load(const std::byte* at, DType dtype) {
  if (dtype == DType::kFp32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, at, sizeof(half));
  return dtype == DType::kBf16 ? from_bf16(half) : from_fp16(half);
}

void store(std::byte* at, DType dtype, float value) {
  if (dtype == DType::kFp32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const std::uint16_t half =
      dtype == DType::kBf16 ? to_bf16(value) : to_fp16(value);
  std::memcpy(at, &half, sizeof(half));
}

// Calls f(address, i) for the elements [begin, end).
template <class F>
void for_elements(const TensorView& view, std::size_t begin, std::size_t end,
                  F&& f) {
  const auto width = static_cast<std::ptrdiff_t>(size_of(view.dtype));
  auto* data = static_cast<std::byte*>(view.data);
  // An odometer over the dimensions, set to element `begin`.
  std::array<std::size_t, TensorView::kMaxDims> at{};
  std::ptrdiff_t offset = 0;
  std::size_t rest = begin;
  for (std::size_t d = view.rank; d-- > 0;) {
    at[d] = rest % view.dims[d];
    rest /= view.dims[d];
    offset += static_cast<std::ptrdiff_t>(at[d]) * view.strides[d];
  }
  for (std::size_t i = begin; i < end; ++i) {
    f(data + offset * width, i);
    for (std::size_t d = view.rank; d-- > 0;) {
      offset += view.strides[d];
      if (++at[d] < view.dims[d]) break;
      offset -= static_cast<std::ptrdiff_t>(at[d]) * view.strides[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void read_view(const TensorView& view, std::size_t begin, std::size_t end,
               float* out) {
  if (is_plain(view)) {
    const auto* from = static_cast<const float*>(view.data);
    std::copy(from + begin, from + end, out);
    return;
  }
  for_elements(view, begin, end, [&](const std::byte* at, std::size_t i) {
    out[i - begin] = load(at, view.dtype);
  });
}

void write_view(const TensorView& view, std::size_t begin, std::size_t end,
                const float* in) {
  for_elements(view, begin, end, [&](std::byte* at, std::size_t i) {
    store(at, view.dtype, in[i - begin]);
  });
}

}  // namespace sluice::cpu
