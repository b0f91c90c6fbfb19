#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/plan/drift.h"
#include "sluice/python/settings.h"
#include "sluice/run/live_planning.h"
#include "sluice/sync/gradient_sync.h"
#include "sluice/torch/step_times.h"

namespace sluice {

// By which plan a sync goes on, step after step, where its settings leave that
// open: by what the steps take (as LivePlan does for `sluice train`), or, if
// nothing is sparse, by what comes together. Sees gradients come and steps end;
// knows nothing of who brings them. Refers to all that it is given.
//
// Gradients that come together are there together: of those the first in the
// order of backward counts as what took the time.
class RunnerPlan {
 public:
  RunnerPlan(const SyncSettings& settings, Communicator& comm, Backend& backend,
             std::span<const Treatment> treatments,
             std::span<const std::string> names, const c10::Device& device,
             GradientSync& sync);

  // A call of all ranks when the first gradients of a step are there, of which
  // so many are done: goes on by another plan if that is due. Throws CommError,
  // by which the communicator has failed.
  void begin_step(std::uint64_t step, const Densities& densities);
  // Whether gradients must wait for the last one, so that nothing disturbs
  // what is measured.
  bool holds() const { return times_.looking(); }
  // What the first rank has to tell the others with the vote. Not while
  // somebody draws a timeline, whose labels are those of one plan.
  std::uint64_t note(bool traced) const;
  void came(std::span<const std::size_t> tensors);
  void all_came();
  // Behind a step that was made; between construction and the first one, too.
  void end_step(std::uint64_t notes);

  // On all ranks, between two steps: goes on by what was decided in another
  // run, as decision() has it, and decides nothing until steps drift.
  void repeat(const std::string& decision, std::uint64_t step);
  // After an error, which may have met some ranks before and others behind a
  // change: all go on as the first.
  void recover(std::uint64_t step);
  // What was decided last, as JSON; empty if nothing was.
  std::string decision() const;
  // For people: why, and from which step on.
  const std::string& why() const { return decided_.why; }
  std::uint64_t since() const { return decided_.step; }
  // What the user is to be told of the plan, once, on the first rank; empty if
  // nothing.
  std::string take_news() { return std::exchange(news_, {}); }
  // Whether plans may change, or come from states.
  bool live() const { return live_ || recorded_.size() > 1; }

 private:
  using Together = std::vector<std::size_t>;

  void look();
  void follow(std::uint64_t step, const std::vector<Together>& together);
  void decide(std::uint64_t step, const Densities& densities);
  void take(const Decision& decision, std::uint64_t step);
  void follow_record(std::uint64_t step);
  void note_if_dense(double before);
  Profile seen() const;
  PlannedTensors model() const {
    return {sync_.tensors(), treatments_, names_};
  }
  std::string record() const;

  const SyncSettings& settings_;
  Communicator& comm_;
  Backend& backend_;
  std::span<const Treatment> treatments_;
  std::span<const std::string> names_;
  c10::Device device_;
  GradientSync& sync_;
  bool live_;
  bool measuring_ = false;
  bool due_ = false;  // all ranks are to decide before the next step
  StepTimes times_;
  Drift drift_;
  std::optional<std::chrono::steady_clock::time_point> ended_;
  Decision decided_;    // of step 0: nothing yet
  Decisions recorded_;  // that the settings bring, of another run
  std::string news_;
  // What came together in the step, and the steps since it may be followed.
  std::vector<Together> together_;
  std::size_t watched_ = 0;
};

}  // namespace sluice
