#pragma once

#include "sluice/torch/train/session.h"
#include "sluice/torch/train/step_times.h"

namespace sluice {

// Makes the profile.json of a run (--profile), on its first rank: gradients
// come alike everywhere. Refers to the session, which must outlive it.
class Profiling {
 public:
  explicit Profiling(Session& session);

  // Before the first pass of every step.
  void begin_step();
  // To be told of the rest of it.
  StepTimes& times() { return times_; }
  // At the end of the run, a call of all ranks: measures what the stages of a
  // bucket take, and writes the file. What there is to say of that; empty if
  // nothing was asked for. Throws AgreedError if it cannot be written.
  std::string finish();

 private:
  bool active() const { return session_.config.profile > 0; }
  Profile profile() const;

  Session& session_;
  StepTimes times_;
};

}  // namespace sluice
