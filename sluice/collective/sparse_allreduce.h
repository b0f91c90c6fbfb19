#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sluice/backend/backend.h"
#include "sluice/backend/sparse_block.h"

namespace sluice {

// What a rank brings to an exchange.
struct Contribution {
  const SparseBlock& selected;  // its counts have been fetched
  ValueForm values = ValueForm::kFp32;
  std::span<const RowLayout> rows;
  std::uint64_t step = 0;
};

// An algorithm that sums sparse blocks over all ranks. Knows nothing of how
// entries were chosen.
class SparseAllreduce {
 public:
  virtual ~SparseAllreduce() = default;

  virtual std::string_view name() const = 0;

  // Replaces `mean` (dense_size floats of device memory) by the sum over all
  // ranks of what the algorithm delivers, divided by their number; the same
  // bits on every rank. Entries that it selected but did not deliver go to
  // `undelivered`, for Feedback::put_back. Throws CommError or CodecError, and
  // then nothing may be committed.
  virtual void reduce(Stream& stream, const Contribution& mine, float* mean,
                      SparseBlock& undelivered) = 0;
};

}  // namespace sluice
