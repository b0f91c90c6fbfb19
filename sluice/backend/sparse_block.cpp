#include "sluice/backend/sparse_block.h"

#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {

SparseBlock::SparseBlock(Backend& backend, std::size_t dense_size,
                         std::size_t capacity, std::size_t segments)
    : dense_size_(dense_size), segments_(segments) {
  require(dense_size <= std::size_t{1} << 32,
          "[sparse_block] a bucket may have at most 2^32 elements, got ",
          dense_size, "; split it into several buckets");
  starts_ = backend.allocate((segments + 1) * sizeof(std::uint64_t));
  host_starts_.resize(segments + 1);
  reserve(backend, capacity);
}

void SparseBlock::reserve(Backend& backend, std::size_t capacity) {
  valid_ = false;
  if (capacity <= capacity_ && indices_.data() != nullptr) return;
  capacity_ = capacity;
  indices_ = backend.allocate(capacity * sizeof(std::uint32_t));
  values_ = backend.allocate(capacity * sizeof(float));
}

Event SparseBlock::fetch(Backend& backend, Stream& stream) {
  backend.copy_out(stream, std::as_writable_bytes(std::span(host_starts_)),
                   starts());
  fetched_ = backend.record(stream);
  valid_ = true;
  return fetched_;
}

std::size_t SparseBlock::count() const { return start(segments_); }

std::size_t SparseBlock::start(std::size_t segment) const {
  if (!valid_ || !fetched_.done()) {
    throw std::logic_error(
        "[sparse_block] counts must be fetched and their event waited for "
        "before they are read");
  }
  return host_starts_.at(segment);
}

}  // namespace sluice
