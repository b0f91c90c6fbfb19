#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

#include "sluice/data/sample_maker.h"
#include "sluice/data/sampler.h"

namespace sluice {

// What a model sees in one pass. Which tensor is what is a matter of the task
// that made them.
struct Batch {
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> host;  // those that no device needs to have
  BatchOutcome outcome{};
};

// Training batches of one rank, without end, in host memory.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::uint64_t steps_per_epoch() const = 0;
  // Of the batch that next() returns.
  virtual const Position& position() const = 0;
  // Goes on from there: exactly as if all before it had been taken.
  virtual void seek(const Position& position) = 0;
  // The batch of this step; goes on to the next. Throws what is wrong with a
  // sample, and stays at this step then.
  virtual Batch next() = 0;
};

}  // namespace sluice
