#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sluice/core/ensure.h"
#include "sluice/core/half.h"
#include "sluice/weights/import.h"
#include "sluice/weights/transpose.h"

namespace sluice {
namespace {

template <class T>
T load(const std::byte* from, std::size_t i) {
  T value = 0;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

// Elements `first` to `first + to.size()` of a tensor.
void convert(const WeightTensor& tensor, std::size_t first,
             std::span<float> to) {
  if (to.empty()) return;
  const std::byte* from = tensor.bytes.data() + first * bytes_of(tensor.type);
  const std::size_t n = to.size();
  switch (tensor.type) {
    case WeightType::kF32:
      std::memcpy(to.data(), from, 4 * n);
      break;
    case WeightType::kF64:
      for (std::size_t i = 0; i < n; ++i) {
        to[i] = static_cast<float>(load<double>(from, i));
      }
      break;
    case WeightType::kF16:
      for (std::size_t i = 0; i < n; ++i) {
        to[i] = from_fp16(load<std::uint16_t>(from, i));
      }
      break;
    case WeightType::kBF16:
      for (std::size_t i = 0; i < n; ++i) {
        to[i] = from_bf16(load<std::uint16_t>(from, i));
      }
      break;
    default:
      require(false, "[materialize] tensor '", tensor.name,
              "' must be of floating type, is ", name_of(tensor.type));
  }
  const auto bad = std::find_if(to.begin(), to.end(),
                                [](float x) { return !std::isfinite(x); });
  ensure(bad == to.end(), "[weights] tensor '", tensor.name,
         "' must be finite in fp32, element ",
         first + static_cast<std::size_t>(bad - to.begin()), " is ",
         bad == to.end() ? 0.0F : *bad, "; the training that made it diverged");
}

}  // namespace

void transpose(std::span<const float> from, std::size_t rows,
               std::size_t columns, std::span<float> to) {
  // By tiles, so that both sides stay in the cache.
  constexpr std::size_t kTile = 32;
  for (std::size_t r = 0; r < rows; r += kTile) {
    for (std::size_t c = 0; c < columns; c += kTile) {
      const std::size_t r_end = std::min(rows, r + kTile);
      const std::size_t c_end = std::min(columns, c + kTile);
      for (std::size_t i = r; i < r_end; ++i) {
        for (std::size_t j = c; j < c_end; ++j) {
          to[j * rows + i] = from[i * columns + j];
        }
      }
    }
  }
}

void materialize(const Assignment& assignment, std::span<float> to) {
  const auto n = elements_of(assignment.dims);
  require(n.has_value() && static_cast<std::size_t>(*n) == to.size(),
          "[materialize] '", assignment.name, "' (", text_of(assignment.dims),
          ") must be given room for as many elements, got ", to.size());
  if (assignment.transposed) {
    const WeightTensor& source = assignment.sources.front();
    std::vector<float> theirs(to.size());
    convert(source, 0, theirs);
    return transpose(theirs, static_cast<std::size_t>(source.dims[0]),
                     static_cast<std::size_t>(source.dims[1]), to);
  }
  for (const WeightTensor& source : assignment.sources) {
    const std::size_t has = source.bytes.size() / bytes_of(source.type);
    const std::size_t take = std::min(has, to.size());
    convert(source, 0, to.first(take));
    to = to.subspan(take);
  }
  std::fill(to.begin(), to.end(), 0.0F);
}

}  // namespace sluice
