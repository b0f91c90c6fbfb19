#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/backend/backend.h"

namespace sluice {

// Selected entries of a bucket: indices ascending, values beside them, and per
// segment where its entries start. All of it is device memory.
//
// The capacity is fixed; the count is known to the device first. fetch() brings
// the counts to the host, where they may be read once the event is done.
class SparseBlock {
 public:
  SparseBlock() = default;
  // Throws std::invalid_argument if dense_size does not fit 32-bit indices.
  SparseBlock(Backend& backend, std::size_t dense_size, std::size_t capacity,
              std::size_t segments);

  std::size_t dense_size() const { return dense_size_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t segments() const { return segments_; }
  std::uint32_t* indices() const { return indices_.data<std::uint32_t>(); }
  float* values() const { return values_.data<float>(); }
  std::uint64_t* starts() const { return starts_.data<std::uint64_t>(); }
  SparseView view() const {
    return {indices(), values(), starts() + segments_, capacity_};
  }

  // Enqueues a copy of entries of the host, of which segment s has those from
  // starts[s] on; with no starts all are the first's. For blocks that nobody
  // selected. Throws std::invalid_argument unless indices ascend, lie below the
  // dense size and have a value each.
  void assign(Backend& backend, Stream& stream,
              std::span<const std::uint32_t> indices,
              std::span<const float> values,
              std::span<const std::uint64_t> starts = {});

  // Grows the capacity if needed; the content is lost then.
  void reserve(Backend& backend, std::size_t capacity);

  // Enqueues the copy of the counts. Read them after backend.wait(event).
  Event fetch(Backend& backend, Stream& stream);

  // Throw std::logic_error unless the last fetch is done.
  std::size_t count() const;
  std::size_t start(std::size_t segment) const;

 private:
  std::size_t dense_size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t segments_ = 0;
  Buffer indices_;
  Buffer values_;
  Buffer starts_;
  Buffer host_starts_;
  Event fetched_;
  bool valid_ = false;
};

}  // namespace sluice
