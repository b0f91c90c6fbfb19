#pragma once

#include <functional>
#include <future>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
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
//
// Gradients of float64 and complex parameters are sent whole, as doubles, and
// in the GradientSync have marks in their place, of one value each. Sparse
// gradients are exchanged as dense ones, and are sparse again afterwards. Of
// parameters without elements nothing is sent.
class BucketHook {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  // A call of all ranks. `parameters` are on one device. Throws
  // std::invalid_argument for what cannot be exchanged, and as SyncRunner does.
  BucketHook(std::unique_ptr<Engine> engine, const NamedTensors& parameters,
             const std::string& settings);

  SyncRunner& runner() const { return *runner_; }

  // What gradients are multiplied by, as a GradScaler does; none: by nothing.
  using Scale = std::optional<at::Tensor>;

  // Of the DistributedDataParallel that brings buckets.
  struct Ways {
    bool scratch = false;       // nobody needs a bucket if the step fails
    bool drops_unused = false;  // what comes for parameters that no rank used
  };

  // Gradients of a bucket are replaced by their mean when the future, which has
  // `value`, is there; those of a step that was skipped are NaN. With a scale,
  // gradients are that many times what is exchanged and kept. An error of the
  // step is one of the future. Throws as SyncRunner::announce() and, with the
  // last bucket, expect_all() do.
  Future announce(c10d::GradBucket& bucket, const c10::IValue& value,
                  const Scale& scale, const Ways& ways);
  // The same with the gradients of all parameters, which are zeros where there
  // are none; returns when they are the mean. True unless the step was skipped.
  // Calls `check` every 0.1 s: what it throws, say because the user has told
  // the program to stop, ends the step as a lost rank does, and is thrown.
  bool step(const Scale& scale, const std::function<void()>& check = {});
  // See SyncRunner::recover(). Returns true if a step failed here that the
  // other ranks have committed: its gradients are the mean now. If they have
  // skipped that step, its gradients are NaN now, as on the other ranks. Else
  // all ranks have rolled it back, and gradients that are not in the residual
  // are what they were.
  bool recover();

 private:
  using Tensors = std::vector<at::Tensor>;

  // What a step has brought that failed. Its memory is written to, should the
  // step be made after all.
  struct Brought {
    Tensors parameters;
    Tensors gradients;
    Scale scale;
    bool drops_unused = false;
    bool lies = false;  // gradients have the shapes of their parameters
    // Per gradient, how many dimensions are sparse of the one that this is a
    // dense copy of; 0, or nothing: it is itself.
    std::vector<std::int64_t> sparse;
    // Of a bucket, with gradients as their parameters lie.
    Brought as_it_lies() const;
    void scale_back();
    void hand_over(std::size_t i) const;
    bool is_copy(std::size_t i) const { return i < sparse.size() && sparse[i]; }
  };
  // Where the gradient of a parameter is among the doubles.
  struct Wide {
    at::Tensor mark;  // undefined: it is none of them
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  // What the GradientSync has of the parameter.
  NamedTensor add(const NamedTensor& parameter);
  std::uint64_t mean_of_wide(Communicator& comm, std::uint64_t step);
  void pack(const Wide& wide, const at::Tensor& gradient);
  // Writes the means of what is wide.
  void unpack(const Brought& brought) const;

  std::vector<SyncRunner::Gradient> gradients_of(const Tensors& parameters,
                                                 const Tensors& gradients,
                                                 const MemoryOwner& scratch);
  Brought own_gradients();
  std::exception_ptr wait_for(const std::future<bool>& step,
                              const std::function<void()>& check);
  // What comes of a step that brought this.
  SyncRunner::Done to(const Future& future, const c10::IValue& value,
                      const at::Tensor& buffer, Brought brought);
  void keep(const std::exception_ptr& error, Brought brought);
  void hand_over_behind(const Brought& brought, bool first, bool last);

  // Kept, so that no other tensor takes an address.
  Tensors parameters_;
  std::unordered_map<const void*, std::size_t> tensor_of_;
  std::vector<Wide> wide_;            // per parameter
  std::vector<std::int64_t> sparse_;  // likewise: as Brought::sparse, so far
  std::vector<double> doubles_;
  std::vector<Brought> unused_;         // so far, of what DDP may drop
  std::vector<Brought> failed_;         // written by the runner's thread
  std::unique_ptr<SyncRunner> runner_;  // ends first
};

// What a BucketHook exchanges by, over groups that must serve it alone; see
// make_c10d_engine(). A call of all ranks of the groups.
using Group = c10::intrusive_ptr<c10d::Backend>;
std::unique_ptr<Engine> make_hook_engine(const Group& group, const Group& sums,
                                         const std::string& settings);

// The error of a future, as Python is to see it.
using TranslateError = std::exception_ptr (*)(const std::exception_ptr&);
void set_error_translation(TranslateError translate);

}  // namespace sluice
