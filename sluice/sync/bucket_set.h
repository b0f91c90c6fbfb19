#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/sync/bucket_sync.h"
#include "sluice/sync/gradient_sync.h"

namespace sluice {

// The buckets of a plan over the tensors of a model, with the arena that they
// share: all that is kept from step to step, and from plan to plan. Knows
// nothing of ranks and threads.
class BucketSet {
 public:
  // Without a plan it has no buckets. `treatments`: per tensor, or none.
  BucketSet(Backend& backend, std::vector<TensorInfo> tensors,
            std::vector<Treatment> treatments);

  // See GradientSync::replan. Throws before anything has changed.
  void take(const Plan& plan);

  std::size_t size() const { return buckets_.size(); }
  BucketSync& operator[](std::size_t b) { return *buckets_[b]; }
  // The bucket of a tensor.
  std::size_t of(std::size_t tensor) const { return bucket_of_[tensor]; }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<std::string>& names() const { return names_; }
  // Bytes of the arena and of buffers that steps use.
  std::size_t memory_bytes() const;

  // See GradientSync::State. What is loaded is there once the stream has come
  // so far.
  GradientSync::State save(Stream& stream);
  void load(Stream& stream, const GradientSync::State& state);

 private:
  std::unique_ptr<BucketSync>* find(const BucketPlan& plan);
  std::unique_ptr<BucketSync> make(const BucketPlan& plan);
  std::vector<float> fetch(Stream& stream, const float* device);

  Backend& backend_;
  std::vector<TensorInfo> tensors_;
  std::vector<Treatment> treatments_;
  std::vector<std::string> names_;   // of the tensors
  std::vector<std::size_t> memory_;  // where each tensor starts in the arena
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<BucketSync>> buckets_;
  std::vector<std::size_t> bucket_of_;
};

}  // namespace sluice
