#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

enum class DType : std::uint8_t { kFp32, kBf16, kFp16 };

constexpr std::size_t size_of(DType type) {
  return type == DType::kFp32 ? 4 : 2;
}

// A tensor as (d0, c, r): the first two dimensions and the product of the rest.
//
// Element (i, j, l) sits at (i * c + j) * r + l. A 1-D tensor of n elements is
// (1, n, 1): one row. An empty tensor has size() == 0.
struct Shape3 {
  std::size_t d0 = 1;
  std::size_t c = 0;
  std::size_t r = 1;

  constexpr std::size_t size() const { return d0 * c * r; }
  friend bool operator==(const Shape3&, const Shape3&) = default;
};

// The (d0, c, r) of a tensor with these dimensions; a scalar is (1, 1, 1).
// Throws std::invalid_argument if the number of elements overflows 64 bits.
Shape3 shape3(std::span<const std::size_t> dims);

// Memory of some device seen as a tensor; owns nothing. Who is handed one reads
// it, and writes to it only where that is said.
//
// Strides count elements and may be anything (a transpose, a slice); `data`
// may have any alignment that its type allows.
struct TensorView {
  static constexpr std::size_t kMaxDims = 8;

  void* data = nullptr;
  DType dtype = DType::kFp32;
  std::size_t rank = 0;
  std::array<std::size_t, kMaxDims> dims{};
  std::array<std::ptrdiff_t, kMaxDims> strides{};

  std::size_t size() const;
  bool contiguous() const;
};

// Contiguous, aligned fp32: may be used as an array.
bool is_plain(const TensorView& view);

// A row-major view; throws std::invalid_argument for more than kMaxDims.
TensorView contiguous_view(const void* data, std::span<const std::size_t> dims,
                           DType dtype = DType::kFp32);

// Rows begin to end - 1 of the first dimension; a scalar has one row. Throws
// std::invalid_argument if there are fewer.
TensorView slice_rows(const TensorView& view, std::size_t begin,
                      std::size_t end);

// The 1-D view of a span.
TensorView flat_view(std::span<const float> values);

}  // namespace sluice
