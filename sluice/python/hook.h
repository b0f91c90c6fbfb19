#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <unordered_map>

#include "sluice/python/runner.h"
#include "sluice/torch/gradients.h"

namespace sluice {

// What DistributedDataParallel's hook calls: buckets of torch's in, futures
// out.
//
// Gradients are known by their parameters: buckets change after the first step.
// Calls may be made without the interpreter's lock.
class BucketHook {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  // A call of all ranks of the groups, which must serve this hook alone; see
  // make_c10d_engine(). `parameters` are on one device. Throws
  // std::invalid_argument for what cannot be exchanged, and as SyncRunner does.
  using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
  BucketHook(const Group& group, const Group& sums,
             const NamedTensors& parameters, const std::string& settings);

  SyncRunner& runner() { return *runner_; }

  // Gradients of a bucket are replaced by their mean when the future, which has
  // `value`, is there; those of a step that was skipped are NaN. With a
  // `scale`, gradients are that many times what is exchanged and kept. With
  // `scratch` nobody needs what the bucket holds if the step fails. An error
  // of the step is one of the future. Throws as SyncRunner::announce() and,
  // with the last bucket, expect_all() do.
  Future announce(c10d::GradBucket& bucket, const c10::IValue& value,
                  const std::optional<at::Tensor>& scale, bool scratch);
  // The same with gradients of the parameters, all of them; returns when they
  // are the mean. True unless the step was skipped.
  bool step(const std::vector<at::Tensor>& gradients);

 private:
  std::vector<SyncRunner::Gradient> gradients_of(
      const std::vector<at::Tensor>& parameters,
      const std::vector<at::Tensor>& gradients,
      const MemoryOwner& scratch) const;

  // Kept, so that no other tensor takes an address.
  std::vector<at::Tensor> parameters_;
  std::unordered_map<const void*, std::size_t> tensor_of_;
  std::unique_ptr<SyncRunner> runner_;
};

// The error of a future, as Python is to see it.
using TranslateError = std::exception_ptr (*)(const std::exception_ptr&);
void set_error_translation(TranslateError translate);

}  // namespace sluice
