#include "sluice/core/view.h"

#include <algorithm>

#include "sluice/core/error.h"

namespace sluice {
namespace {

std::size_t checked_product(std::span<const std::size_t> dims) {
  // A zero anywhere makes the tensor empty, however large the others are.
  if (std::find(dims.begin(), dims.end(), 0U) != dims.end()) return 0;
  std::size_t n = 1;
  for (const std::size_t d : dims) {
    std::size_t next = 0;
    require(!__builtin_mul_overflow(n, d, &next),
            "[shape] the number of elements must fit 64 bits, got dimensions "
            "whose product does not");
    n = next;
  }
  return n;
}

}  // namespace

Shape3 shape3(std::span<const std::size_t> dims) {
  checked_product(dims);
  if (dims.empty()) return {1, 1, 1};
  if (dims.size() == 1) return {1, dims[0], 1};
  return {dims[0], dims[1], checked_product(dims.subspan(2))};
}

std::size_t TensorView::size() const {
  return checked_product({dims.data(), rank});
}

bool TensorView::contiguous() const {
  std::ptrdiff_t expected = 1;
  for (std::size_t d = rank; d-- > 0;) {
    if (dims[d] != 1 && strides[d] != expected) return false;
    expected *= static_cast<std::ptrdiff_t>(dims[d]);
  }
  return true;
}

bool is_plain(const TensorView& view) {
  return view.dtype == DType::kFp32 && view.contiguous() &&
         reinterpret_cast<std::uintptr_t>(view.data) % alignof(float) == 0;
}

TensorView contiguous_view(const void* data, std::span<const std::size_t> dims,
                           DType dtype) {
  require(dims.size() <= TensorView::kMaxDims,
          "[view] a tensor may have at most ", TensorView::kMaxDims,
          " dimensions, got ", dims.size());
  TensorView view;
  view.data = const_cast<void*>(data);  // see TensorView
  view.dtype = dtype;
  view.rank = dims.size();
  std::ptrdiff_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    view.dims[d] = dims[d];
    view.strides[d] = stride;
    stride *= static_cast<std::ptrdiff_t>(dims[d]);
  }
  return view;
}

TensorView slice_rows(const TensorView& view, std::size_t begin,
                      std::size_t end) {
  TensorView slice = view;
  if (view.rank == 0) {
    slice.rank = 1;
    slice.dims[0] = slice.strides[0] = 1;
  }
  require(begin <= end && end <= slice.dims[0], "[view] a slice must lie in ",
          slice.dims[0], " rows, got ", begin, " to ", end);
  const auto skipped = static_cast<std::ptrdiff_t>(begin) * slice.strides[0] *
                       static_cast<std::ptrdiff_t>(size_of(view.dtype));
  if (begin < end) slice.data = static_cast<std::byte*>(view.data) + skipped;
  slice.dims[0] = end - begin;
  return slice;
}

TensorView flat_view(std::span<const float> values) {
  const std::array<std::size_t, 1> dims = {values.size()};
  return contiguous_view(values.data(), dims);
}

}  // namespace sluice
