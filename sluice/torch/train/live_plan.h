#pragma once

#include "sluice/plan/drift.h"
#include "sluice/run/live_planning.h"
#include "sluice/torch/train/profiling.h"

namespace sluice {

// Plans a run by what its own steps take, where its planner goes by costs and
// --costs has none; takes up what was decided for a step before, in this run or
// the one that it repeats. Refers to session and profiling, which must outlive
// it.
//
// The first rank sees when there is enough to go by, and asks for a decision by
// the notes of a step, so that all ranks come to it behind the same one. It
// plans; all ranks take up the same.
class LivePlan {
 public:
  LivePlan(Session& session, Profiling& profiling);

  // Before every step, on all ranks: takes up what was decided for it.
  void begin_step();
  // Whether this rank asks for a decision, by the notes of the step.
  bool asks() const;
  // What a step took.
  void add(double seconds);

  // Between two steps, a call of all ranks. Throws CommError.
  LiveOutcome decide();

 private:
  void look_again();

  Session& session_;
  Profiling& profiling_;
  bool measuring_ = false;
  bool watches_ = false;  // for drift
  Drift drift_;
};

}  // namespace sluice
