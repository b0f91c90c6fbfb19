#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sluice/collective/sparse_allreduce.h"
#include "sluice/comm/machines.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/plan.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sync/observer.h"

namespace sluice {

struct HostSide;

// One bucket's way through a step, on the device that holds its gradients:
// select, exchange, apply, then commit or roll back. select() may run on
// another thread than the rest, before it. A plan's piece is of the gradients
// that it is told of: the rest of them is not touched.
class BucketSync {
 public:
  struct Setup {
    Backend& backend;
    Arena& arena;
    const BucketPlan& plan;
    std::span<const TensorInfo> tensors;      // all of the model
    std::span<const std::size_t> memory;      // where each starts in the arena
    std::span<const Treatment> treatments{};  // per tensor, or none
    // Whose ranks exchange as one; null: every rank for itself. Must outlive
    // the bucket.
    const Machines* machines = nullptr;
  };
  explicit BucketSync(const Setup& setup);
  virtual ~BucketSync() = default;

  const Bucket& bucket() const { return bucket_; }
  const BucketPlan& plan() const { return plan_; }

  // Forgets the step before, and ends what start() has started.
  virtual void reset();
  // Takes a tensor's gradient, all of it, to be read after the event; true if
  // it was the last one missing. Throws std::logic_error if the tensor is there
  // already, std::invalid_argument if it has another size, or if a piece of it
  // is no slice. `scratch`: see GradientSync::ready().
  bool add(std::size_t tensor, const TensorView& gradient, const Event& ready,
           const MemoryOwner& scratch = {});
  bool complete() const { return missing_ == 0; }
  // Whether it has that tensor's gradient.
  bool has(std::size_t tensor) const;
  // All gradients at once instead, one view per segment, which may be read
  // already.
  void take(std::span<const TensorView> gradients);

  // Enqueues the selection.
  void select(Stream& stream, const StepInfo& step);
  // Shows what was selected, once it is; waits for the device.
  virtual void show(const StepInfo& step, SelectionObserver& observer);
  // See SparseAllreduce::unknown_network.
  virtual Network* unknown_network() { return collective_->unknown_network(); }
  // When complete, on the thread that brought the last gradient: starts what
  // needs no other thread's work, in the order of the buckets on all ranks.
  // False if there is nothing of that kind.
  virtual bool start(Communicator&) { return false; }
  void exchange(Communicator& comm, ExchangeContext& context,
                std::uint64_t step);
  // What an exchange left under way, so that others could start.
  virtual void finish_exchange(Communicator&, ExchangeContext&,
                               std::uint64_t /*step*/) {}
  // Whether it is applied before the vote, and not when it is committed.
  virtual bool applies_early() const { return false; }
  // Enqueues that: the mean over so many ranks.
  virtual void apply(ExchangeContext&, std::size_t /*ranks*/) {}
  // Once the context's stream has come so far: see SparseAllreduce::verify.
  virtual bool verify(Communicator& comm) { return collective_->verify(comm); }
  virtual StepReport report() const = 0;
  virtual bool is_sparse() const = 0;
  // Has been selected, and neither committed nor rolled back.
  bool staged() const { return staged_; }
  // `selected`: over all ranks. The gradients are the mean afterwards.
  void commit(ExchangeContext& context, std::uint64_t selected);
  // The residual holds all of the gradient, or the gradient is what it was.
  void roll_back(ExchangeContext& context);

  // See GradientSync::State.
  virtual std::vector<std::byte> save_rule(Stream&) const { return {}; }
  virtual void load_rule(Stream&, std::span<const std::byte>) {}
  virtual std::vector<double> save_collective() const {
    return collective_->save();
  }
  virtual void load_collective(std::span<const double> values) {
    collective_->load(values);
  }
  // The residual may hold what another plan or a checkpoint left there.
  virtual void inherit_residual() {}
  // Bytes of buffers that steps use.
  virtual std::size_t memory_bytes() const = 0;

 protected:
  virtual void enqueue_select(Stream& stream, const StepInfo& step) = 0;
  virtual void run_exchange(Communicator& comm, ExchangeContext& context,
                            std::uint64_t step) = 0;
  // These end the collective's step as well.
  virtual void on_commit(ExchangeContext& context, std::uint64_t selected) = 0;
  virtual void on_roll_back(ExchangeContext&) { collective_->roll_back(); }
  // Whose selection show() shows; null: all of the gradients.
  virtual Feedback* shown() { return nullptr; }

  // How many sums were not finite, once the context's stream has come so far.
  void fetch_bad_sums(ExchangeContext& context);
  std::uint64_t* bad_sums() { return bad_.data<std::uint64_t>(); }
  std::uint64_t host_bad_sums() const {
    return *host_bad_.data<std::uint64_t>();
  }

  Backend& backend_;
  Arena& arena_;
  // Null where another bucket has it.
  std::unique_ptr<SparseAllreduce> collective_;
  Bucket bucket_;
  std::vector<TensorView> gradients_;  // per segment
  std::vector<MemoryOwner> scratch_;   // per segment; null: none

  // Without a collective of its own.
  struct Outer {};
  BucketSync(const Setup& setup, Outer);

 private:
  // What a bucket has of a tensor.
  struct Part {
    std::size_t elements;  // of the whole tensor
    std::size_t rows;
    std::size_t begin;
    std::size_t end;
  };

  struct Shown;

  void add_segment(const Setup& setup, std::size_t tensor);
  void fetch_selection(Stream& stream, Feedback& feedback, Shown& shown) const;
  SelectedPart part_of(std::size_t s, const StepInfo& step,
                       const Feedback* feedback, const Shown& shown) const;
  TensorView part_of(std::size_t segment, const TensorView& gradient) const;

  BucketPlan plan_;
  std::vector<Part> parts_;   // per segment
  std::vector<Event> ready_;  // per segment
  std::vector<bool> there_;
  std::size_t missing_ = 0;
  bool staged_ = false;
  Event selected_;
  Buffer bad_;
  Buffer host_bad_;
};

// Sparse, or dense if the plan's sparsifier is "none"; of machines if there
// are any.
std::unique_ptr<BucketSync> make_bucket_sync(const BucketSync::Setup& setup);
// Throws std::invalid_argument if the values of what is selected would be
// rounded for nothing; see SparseAllreduce::carries.
void check_values(const BucketPlan& plan);
std::unique_ptr<BucketSync> make_sparse_bucket(const BucketSync::Setup& setup);
std::unique_ptr<BucketSync> make_dense_bucket(const BucketSync::Setup& setup);
std::unique_ptr<BucketSync> make_machine_bucket(const BucketSync::Setup& setup);
// A sparse one of a device's gradients, selected and exchanged by the host,
// where its residual is; `setup` is of the device.
std::unique_ptr<BucketSync> make_offloaded_bucket(
    const BucketSync::Setup& setup, HostSide& host);

}  // namespace sluice
