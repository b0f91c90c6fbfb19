#include "sluice/core/bucket.h"

#include "sluice/core/error.h"

namespace sluice {

void Bucket::add(std::uint64_t tensor, const Shape3& shape, std::size_t memory,
                 bool keeps_residual) {
  constexpr std::size_t kLimit = std::size_t{1} << 32;
  require(shape.size() <= kLimit - size_,
          "[bucket] a bucket may have at most 2^32 elements, got ", size_,
          " and a tensor of ", shape.size(), "; split it into several buckets");
  segments_.push_back({tensor, shape, size_, memory, keeps_residual});
  size_ += shape.size();
}

}  // namespace sluice
