#pragma once

#include <deque>

#include "sluice/data/dataset.h"
#include "sluice/torch/data/batch.h"

// Batches of images: float, batch x channels x height x width; and their
// labels: int64, batch.

namespace sluice {

// Who makes batches. None of it changes what is in them.
struct LoaderOptions {
  // Threads that do nothing else; 0: torch's, when a batch is asked for.
  std::size_t threads = 0;
  // Batches that those threads make before they are asked for.
  std::size_t prefetch = 2;
  // In memory that a CUDA device can copy from by itself.
  bool pinned = false;
};

// The threads that `asked` (0: as many as pay, none if samples are not `slow`
// to make) comes to in each of `workers` processes on one machine, whose cores
// are idle if a device computes.
std::size_t data_threads(bool slow, std::size_t asked, std::size_t workers,
                         bool cores_are_idle = false);

// Batches on their way, in the order in which they were asked for.
//
// The memory of a batch is used once more when nobody holds a tensor of it.
class BatchQueue {
 public:
  BatchQueue(const Dataset& dataset, const LoaderOptions& options);

  // Whether as many are on their way as should be before one is taken.
  bool full() const { return waiting_.size() > ahead_; }
  bool empty() const { return waiting_.empty(); }
  void push(std::vector<std::uint64_t> indices,
            std::optional<std::uint64_t> key);
  // Throws what a sample threw; the batch is gone then.
  Batch pop();
  void clear();

 private:
  struct Waiting {
    Order order;
    Batch batch;
  };

  Batch make_room(std::int64_t count);

  const Dataset& dataset_;
  std::size_t ahead_;
  bool pinned_;
  std::deque<Batch> handed_out_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<SampleMaker> maker_;  // last: it writes to the others
};

// Training batches of a data set, without end; see Sampler for who gets what.
//
// Augmentation is a function of (seed, epoch, sample), so an image looks the
// same in an epoch whatever the ranks, the batch, the number of threads and
// the prefetch.
class Loader final : public BatchSource {
 public:
  // Keeps a reference to `dataset`.
  Loader(const Dataset& dataset, const SamplerOptions& options,
         const LoaderOptions& how = {});

  std::uint64_t steps_per_epoch() const override {
    return sampler_.steps_per_epoch();
  }
  // Not of those that are made ahead.
  const Position& position() const override { return position_; }
  void seek(const Position& position) override;
  Batch next() override;

 private:
  std::uint64_t seed_;
  Sampler sampler_;  // ahead of position_ by what is queued
  Position position_;
  std::deque<Position> after_;  // each batch that is queued
  BatchQueue queue_;
};

// Samples [begin, end) of a data set, as they are, in batches.
class EvaluationLoader {
 public:
  // Keeps a reference to `dataset`. Throws std::invalid_argument for samples
  // that are not there.
  EvaluationLoader(const Dataset& dataset, const Partition& samples,
                   std::uint64_t batch, const LoaderOptions& how = {});

  // Nothing after the last one.
  std::optional<Batch> next();

 private:
  Partition rest_;
  std::uint64_t batch_;
  BatchQueue queue_;
};

}  // namespace sluice
