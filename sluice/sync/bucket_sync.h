#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sluice/collective/dense.h"
#include "sluice/collective/sparse_allreduce.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/plan.h"
#include "sluice/sparsify/exceptions.h"

namespace sluice {

// One bucket's way through a step: select, exchange, apply, then commit or roll
// back. select() may run on another thread than the rest, before it.
class BucketSync {
 public:
  struct Setup {
    Backend& backend;
    Arena& arena;
    const BucketPlan& plan;
    std::span<const TensorInfo> tensors;      // all of the model
    std::span<const std::size_t> memory;      // where each starts in the arena
    std::span<const Treatment> treatments{};  // per tensor, or none
  };
  explicit BucketSync(const Setup& setup);
  virtual ~BucketSync() = default;

  const Bucket& bucket() const { return bucket_; }

  // Forgets the step before.
  void reset();
  // Takes a tensor's gradient; true if it was the last one missing. Throws
  // std::logic_error if the tensor is there already.
  bool add(std::size_t tensor, float* gradient);
  bool complete() const { return missing_ == 0; }

  virtual void select(Stream& stream, const StepInfo& step) = 0;
  // See SparseAllreduce::unknown_network.
  virtual Network* unknown_network() { return nullptr; }
  virtual void exchange(Communicator& comm, std::uint64_t step) = 0;
  // Replaces the gradients by the mean over so many ranks.
  virtual void apply(std::size_t ranks) = 0;
  // Of the selection; of a dense bucket, once applied.
  virtual StepReport report() const = 0;
  virtual bool is_sparse() const = 0;
  // `selected`: over all ranks.
  virtual void commit(Stream& stream, std::uint64_t selected) = 0;
  virtual void roll_back(Stream& stream) = 0;

  // See GradientSync::State.
  virtual std::vector<std::byte> save_rule(Stream& stream) const = 0;
  virtual void load_rule(Stream& stream, std::span<const std::byte> bytes) = 0;
  virtual std::vector<double> save_collective() const = 0;
  virtual void load_collective(std::span<const double> values) = 0;
  // Bytes of buffers that steps use.
  virtual std::size_t memory_bytes() const = 0;

 protected:
  Backend& backend_;
  Arena& arena_;
  Bucket bucket_;
  std::vector<std::vector<std::size_t>> dims_;  // per segment
  std::vector<float*> gradients_;               // per segment

 private:
  std::vector<std::size_t> tensors_;
  std::size_t missing_ = 0;
};

// Sparse, or dense if the plan's sparsifier is "none".
std::unique_ptr<BucketSync> make_bucket_sync(const BucketSync::Setup& setup);

}  // namespace sluice
