#include "sluice/backend/sparse_block.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "sluice/core/ensure.h"

namespace sluice {

SparseBlock::SparseBlock(Backend& backend, std::size_t dense_size,
                         std::size_t capacity, std::size_t segments)
    : dense_size_(dense_size), segments_(segments) {
  require(dense_size <= std::size_t{1} << 32,
          "[sparse_block] a bucket may have at most 2^32 elements, got ",
          dense_size, "; split it into several buckets");
  starts_ = backend.allocate((segments + 1) * sizeof(std::uint64_t));
  host_starts_ = backend.allocate_host((segments + 1) * sizeof(std::uint64_t));
  reserve(backend, capacity);
}

void SparseBlock::reserve(Backend& backend, std::size_t capacity) {
  valid_ = false;
  if (capacity <= capacity_ && indices_.data() != nullptr) return;
  capacity_ = 0;  // if there is not enough memory
  indices_ = backend.allocate(capacity * sizeof(std::uint32_t));
  values_ = backend.allocate(capacity * sizeof(float));
  capacity_ = capacity;
}

Event SparseBlock::fetch(Backend& backend, Stream& stream) {
  backend.copy_out(
      stream, {host_starts_.data<std::byte>(), host_starts_.bytes()}, starts());
  fetched_ = backend.record(stream);
  valid_ = true;
  return fetched_;
}

std::size_t SparseBlock::count() const { return start(segments_); }

std::size_t SparseBlock::start(std::size_t segment) const {
  expect(valid_ && fetched_.done(),
         "[sparse_block] counts must be fetched and their event waited for "
         "before they are read");
  return host_starts_.data<std::uint64_t>()[segment];
}

void SparseBlock::assign(Backend& backend, Stream& stream,
                         std::span<const std::uint32_t> indices,
                         std::span<const float> values,
                         std::span<const std::uint64_t> starts) {
  require(indices.size() == values.size(),
          "[sparse_block] every index must have a value, got ", indices.size(),
          " indices and ", values.size(), " values");
  const auto out_of_order = std::adjacent_find(indices.begin(), indices.end(),
                                               std::greater_equal<>());
  require(out_of_order == indices.end(),
          "[sparse_block] indices must ascend and none come twice, but ",
          out_of_order == indices.end() ? 0 : *out_of_order,
          " is followed by one that is not larger");
  require(indices.empty() || indices.back() < dense_size_,
          "[sparse_block] indices must be below ", dense_size_, ", got ",
          indices.empty() ? 0 : indices.back());
  require(starts.empty() || starts.size() == segments_ + 1,
          "[sparse_block] needs ", segments_ + 1, " starts, got ",
          starts.size());
  std::vector<std::uint64_t> first(segments_ + 1, indices.size());
  first[0] = 0;
  if (starts.empty()) starts = first;
  reserve(backend, indices.size());
  backend.copy_in(stream, this->indices(), std::as_bytes(indices));
  backend.copy_in(stream, this->values(), std::as_bytes(values));
  backend.copy_in(stream, this->starts(), std::as_bytes(starts));
}

}  // namespace sluice
