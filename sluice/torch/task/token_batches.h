#pragma once

#include <memory>
#include <span>

#include "sluice/torch/data/batch.h"

// A text of tokens as batches: tokens and the ones that come next, both int64,
// batch x time.

namespace sluice {

// As columns, for models that carry a state: the text is cut into ranks x batch
// columns of equal length, of which each rank has `batch`, one after another; a
// step takes the next `length` tokens of each. The rest of the text is left
// out. Keeps `tokens`, which must outlive it. Throws std::invalid_argument if a
// column has less than one step.
std::unique_ptr<BatchSource> column_batches(
    std::span<const std::int32_t> tokens, std::uint64_t length,
    const SamplerOptions& options);

// As blocks of `length` tokens, in an order of their own in each epoch; see
// Sampler. Otherwise the same.
std::unique_ptr<BatchSource> block_batches(std::span<const std::int32_t> tokens,
                                           std::uint64_t length,
                                           const SamplerOptions& options);

// The token in place of one that is not there, which no loss looks at.
inline constexpr std::int64_t kNoToken = -100;

// All tokens of a text but the first, each to be predicted once over all ranks,
// whatever their number. Columns are `columns` pieces that follow one another
// from batch to batch; a rank takes some of them, and the shorter ones end with
// kNoToken. Blocks start anew each time.
class TokenEvaluation {
 public:
  // `columns` 0: blocks, `batch` at a time.
  TokenEvaluation(std::span<const std::int32_t> tokens, std::uint64_t length,
                  std::uint64_t columns, std::uint64_t batch,
                  std::uint64_t rank, std::uint64_t ranks);

  std::optional<Batch> next();

 private:
  Batch blocks();
  Batch columns();
  std::uint64_t column_begin(std::uint64_t column) const;

  std::span<const std::int32_t> tokens_;
  std::uint64_t length_;
  std::uint64_t columns_;
  std::uint64_t batch_;
  Partition mine_;          // blocks or columns
  std::uint64_t done_ = 0;  // tokens of each column
  std::uint64_t longest_ = 0;
};

}  // namespace sluice
