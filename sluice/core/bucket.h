#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/core/view.h"

namespace sluice {

// One tensor of a bucket.
struct Segment {
  std::uint64_t tensor = 0;  // its id, equal on all ranks
  Shape3 shape;
  std::size_t base = 0;    // index of its first element in the bucket
  std::size_t memory = 0;  // offset of its residual in the arena
  bool keeps_residual = true;
};

// Tensors that travel together. Its index space is theirs, one after another;
// their residuals stay where they are in the arena, so regrouping moves
// nothing.
class Bucket {
 public:
  // Appends a tensor. Throws std::invalid_argument if the bucket would outgrow
  // 32-bit indices.
  void add(std::uint64_t tensor, const Shape3& shape, std::size_t memory,
           bool keeps_residual = true);

  std::size_t size() const { return size_; }
  const std::vector<Segment>& segments() const { return segments_; }

 private:
  std::size_t size_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace sluice
