#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/plan.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sync/trace.h"

namespace sluice {

struct SyncOptions {
  Plan plan;
  std::uint64_t seed = 0;         // equal on all ranks
  std::uint64_t total_steps = 0;  // 0: unknown
  NonFinite nonfinite = NonFinite::kSkip;
  std::vector<Treatment> treatments;  // per tensor, or none
  Trace* trace = nullptr;             // may be null
};

// What a step came to, on this rank.
struct SyncReport {
  bool committed = false;  // false: skipped because of non-finite gradients
  std::uint64_t budget = 0;
  std::uint64_t selected = 0;  // of sparse buckets
  std::uint64_t sparse_elements = 0;
  std::uint64_t dense_elements = 0;
  std::uint64_t nonfinite = 0;
  std::uint64_t notes = 0;  // sum over the ranks of what begin() was told
  double lost = 0;          // sum of |x| that nothing keeps
  Traffic traffic;
  double exposed_seconds = 0;  // that finish() waited
  double select_seconds = 0;
  double wire_seconds = 0;  // in collectives
};

// Runs a plan on live gradients, beside backward: takes gradients as they
// become ready and gives averaged ones back. Knows nothing of torch.
//
// Buckets are exchanged in the plan's order on all ranks, whatever the order in
// which gradients come. One thread selects, another exchanges and applies, so
// that a bucket is selected while the one before it is on the wire. ready() may
// be called from any thread, everything else from one; the communicator belongs
// to the sync between begin() and finish().
class GradientSync {
 public:
  // Throws std::invalid_argument if the plan does not fit the tensors.
  GradientSync(Communicator& comm, Backend& backend,
               std::vector<TensorInfo> tensors, const SyncOptions& options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Starts a step. bucket_density() says what each bucket makes of the
  // densities of the schedule. `note` rides along with the vote: all ranks
  // learn the sum (say how many wish to stop).
  void begin(std::uint64_t step, const Densities& densities = {},
             std::uint64_t note = 0);
  // The gradient of a tensor is there, contiguous. It is read, and replaced by
  // the mean over the ranks, until finish() returns.
  void ready(std::size_t tensor, float* gradient);
  // Waits for the rest of the step. Every tensor must have been announced; one
  // without a gradient has zeros. Throws what went wrong: after a CommError the
  // residuals hold all of the gradient.
  SyncReport finish();

  // After a CommError, on all ranks that go on: rebuilds the communicator and
  // ends all doubt about the step that failed. True if it was committed; the
  // gradients are then the mean.
  bool recover();

  const std::vector<TensorInfo>& tensors() const;
  const Plan& plan() const;
  // Bytes kept between steps, and the most that a step has needed on top.
  std::size_t memory_bytes() const;

  // Everything that is kept from step to step, for checkpoints: equal states
  // and inputs give equal bits.
  struct State {
    std::vector<float> residual;  // all tensors, one after another
    std::vector<float> momentum;  // empty if none is kept
    // Per bucket: what its rule and its collective have learned.
    std::vector<std::vector<std::byte>> rules;
    std::vector<std::vector<double>> collectives;
  };
  State save() const;
  // Throws std::invalid_argument if it is of another model or plan. Rules and
  // collectives may be missing: they then start anew.
  void load(const State& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
