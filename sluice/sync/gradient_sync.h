#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/comm/device_link.h"
#include "sluice/cost/model.h"
#include "sluice/feedback/feedback.h"
#include "sluice/plan/plan.h"
#include "sluice/sparsify/exceptions.h"
#include "sluice/sync/observer.h"
#include "sluice/sync/trace.h"

namespace sluice {

struct SyncOptions {
  Plan plan;
  std::uint64_t seed = 0;         // equal on all ranks
  std::uint64_t total_steps = 0;  // 0: unknown
  std::uint64_t first_step = 0;   // what errors call step 0
  NonFinite nonfinite = NonFinite::kSkip;
  std::vector<Treatment> treatments;  // per tensor, or none
  Trace* trace = nullptr;             // may be null
  // Looks on; may be null. Not told of buckets of whole machines.
  SelectionObserver* observer = nullptr;
  // What collectives that choose by cost decide from; the ranks measure it in
  // the first step if it is not given, and then no two runs need to agree.
  std::optional<Network> network;
  // By which the device's data reach the other ranks, for collectives that can;
  // null: all goes through the host. Must outlive the sync; all ranks alike.
  DeviceLink* link = nullptr;
  // For plans with Plan::hierarchical: per rank, a number that the ranks of one
  // machine share, alike on all ranks. Empty: gather_machines(), once such a
  // plan comes, which is a call of all ranks.
  std::vector<std::size_t> machine_of;
  // Selects buckets whose plan says device cpu where gradients are on another
  // one; null: the sync makes one of a single thread. Must outlive the sync.
  Backend* host = nullptr;
  // Called on a thread of the sync's when a bucket has been applied: its
  // gradients are the mean after the event. Sparse buckets are applied as they
  // come (with a link, once all have come), before the vote; dense ones, and
  // all of a hierarchical plan, once the step is committed.
  std::function<void(std::size_t bucket, const Event& applied)> applied;
  // Called on a thread of the sync's when all buckets of a step are exchanged,
  // before the vote: exchanges what the sync cannot, in one call of the
  // communicator. All ranks have one or none. Returns how many values of this
  // rank are not finite, which count as those of gradients. An error of it is
  // one of the step.
  std::function<std::uint64_t(Communicator& comm, std::uint64_t step)> beside;
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
  double exchange_seconds = 0;  // in collectives
};

// What recover() has found out about the step that this rank had begun.
enum class Recovered : std::uint8_t {
  kNoStep,     // none was open: the error came between two steps
  kCommitted,  // the gradients are the mean now; go on with the next step
  kSkipped,    // a rank voted against it: go on with the next step
  kFailed,     // all ranks have rolled it back: do it again
};

// Runs a plan on live gradients, beside backward: takes gradients as they
// become ready and gives averaged ones back. Knows nothing of torch.
//
// Gradients, residuals and what is selected are memory of the backend's device,
// but for buckets that their plan puts on the host.
// Buckets are exchanged in the plan's order on all ranks, whatever the order in
// which gradients come. One thread selects, another exchanges and applies, each
// with a stream of its own, so that a bucket is selected while the one before
// it is on the wire. ready() may be called from any thread, everything else
// from one; the communicator belongs to the sync between begin() and finish().
//
// With a hierarchical plan a machine's first rank has the residual of the
// machine: the sum over ranks is as ever, and others have zeros, but after a
// step that was rolled back, until the next one is committed.
class GradientSync {
 public:
  // Throws std::invalid_argument if the plan does not fit the tensors.
  GradientSync(Communicator& comm, Backend& backend,
               std::vector<TensorInfo> tensors, const SyncOptions& options);
  // A step that has begun is given up.
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // Starts a step. bucket_density() says what each bucket makes of the
  // densities of the schedule. `note` rides along with the vote: all ranks
  // learn the sum (say how many wish to stop).
  void begin(std::uint64_t step, const Densities& densities = {},
             std::uint64_t note = 0);
  // The gradient of a tensor may be read after the event. It is replaced by the
  // mean over the ranks by the time finish() returns; nobody else may touch it
  // until then. `scratch`, if not null, owns its memory and says that nobody
  // needs what was there before: it may hold anything until the step is
  // committed, and afterwards if it fails.
  void ready(std::size_t tensor, const TensorView& gradient,
             const Event& event = {}, const MemoryOwner& scratch = {});
  // Waits for the rest of the step. Every tensor must have been announced; one
  // without a gradient has zeros.
  //
  // Throws what went wrong. After a CommError nothing is lost: of sparse
  // buckets the residuals hold all of the gradient (the gradients are
  // undefined), of dense ones the gradients are what they were. Where ranks
  // voted to stop, all of them throw std::runtime_error with the reason.
  SyncReport finish();
  // Instead of finish(), for a step that will not be completed on this rank,
  // because backward threw, say: rolls it back, and tells the others, who throw
  // CommError with `why` in it. Of tensors that were announced nothing is lost.
  // Then recover(), as after a CommError.
  void give_up(const std::string& why);

  // After a CommError, on all ranks that go on: rebuilds the communicator and
  // the link, and ends all doubt about the step that failed. Afterwards all
  // ranks stand before the same step. If some ranks have changed their plan
  // before the error and others have not, all ranks go on by the plan of rank
  // 0, and what rules and collectives have learned is gone. Says what became of
  // a step once. Throws CommError if the network fails again: call it once
  // more, and it will say so then. Throws std::runtime_error if the
  // ranks stand where no vote can leave them.
  Recovered recover();

  // Between two steps, on all ranks before the same one: goes on with another
  // plan. Residuals and momenta stay where they are; buckets that are the same
  // as before keep what their rules and collectives have learned, others start
  // anew. What collectives of new buckets decide from is `network`, if it is
  // given, from now on. `step` is the one that is to come; without it, that
  // behind the last. Throws std::invalid_argument, and changes nothing, if the
  // plan does not fit the tensors or ranks bring different ones.
  void replan(const Plan& plan, const std::optional<Network>& network = {},
              std::optional<std::uint64_t> step = {});

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
  // On all ranks before the same step. Throws std::invalid_argument if it is of
  // another model or plan. Rules and collectives may be missing: they then
  // start anew; so do collectives of other machines.
  void load(const State& state);

  // Between two steps: sets aside a copy of all that is kept, in memory of the
  // device (as many floats as tensors have, and again for momenta), which later
  // calls reuse.
  void set_aside();
  // Between two steps: everything that is kept is as it was then, bit for bit.
  // If the plan has changed since, residuals and momenta are, and the rules and
  // collectives of buckets that were not there start anew. May be called again.
  void bring_back();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
