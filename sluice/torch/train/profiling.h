#pragma once

#include "sluice/torch/step_times.h"
#include "sluice/torch/train/session.h"

namespace sluice {

// What the steps of a run take: for its profile.json (--profile), and for who
// plans by it. Gradients come alike on all ranks, so that the first one's times
// stand for them. Refers to the session, which must outlive it.
class Profiling {
 public:
  explicit Profiling(Session& session);

  // Looks at so many steps from the next one on, after some that it lets pass.
  void restart(std::size_t steps) { times_.restart(steps); }
  // Before the first pass of every step, on all ranks.
  void begin_step();
  // Whether the step is looked at: nothing must run beside its backward then.
  bool looking() const { return times_.looking(); }
  // To be told of the rest of it.
  StepTimes& times() { return times_; }
  // Whether all the steps that were asked for have been looked at.
  bool done() const { return times_.done(); }

  // Of what it has seen; the costs are to be filled in.
  Profile profile() const;
  // At the end of the run, a call of all ranks: measures what the stages of a
  // bucket take, and writes the file. What there is to say of that; empty if
  // nothing was asked for. Throws AgreedError if it cannot be written.
  std::string finish();

 private:
  bool active() const { return session_.config.profile > 0; }

  Session& session_;
  StepTimes times_;
};

}  // namespace sluice
