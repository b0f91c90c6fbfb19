#pragma once

#include <torch/torch.h>

#include "sluice/torch/data/dataset.h"
#include "sluice/torch/data/sampler.h"

namespace sluice {

struct Batch {
  torch::Tensor images;  // float, batch x channels x height x width
  torch::Tensor labels;  // int64, batch
};

// Training batches of a data set, without end; see Sampler for who gets what.
//
// Augmentation is a function of (seed, epoch, sample), so an image looks the
// same in an epoch whatever the ranks, the batch and the number of threads.
class Loader {
 public:
  // Keeps a reference to `dataset`.
  Loader(const Dataset& dataset, const SamplerOptions& options);

  std::uint64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  const Position& position() const { return sampler_.position(); }
  void seek(const Position& position) { sampler_.seek(position); }

  // The batch of this step, in host memory; goes on to the next.
  Batch next();

 private:
  const Dataset& dataset_;
  std::uint64_t seed_;
  Sampler sampler_;
};

// Samples [begin, end) of a data set, as they are, in host memory.
Batch evaluation_batch(const Dataset& dataset, const Share& samples);

}  // namespace sluice
