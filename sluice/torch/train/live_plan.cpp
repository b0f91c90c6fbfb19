#include "sluice/torch/train/live_plan.h"

#include <algorithm>

namespace sluice {

LivePlan::LivePlan(Session& session, Profiling& profiling)
    : session_(session), profiling_(profiling) {
  const TrainConfig& config = session.config;
  const bool live = session.exchanges() && plans_live(config);
  watches_ = live && config.replan == "drift";
  const bool decided = session.model.decisions.size() > 1;
  if (live && !decided) look_again();
}

void LivePlan::look_again() {
  measuring_ = true;
  profiling_.restart(
      std::max(kLiveSteps, static_cast<std::size_t>(session_.config.profile)));
}

void LivePlan::begin_step() {
  const std::uint64_t done = session_.progress.done;
  const Decision& now = decision_at(session_.model.decisions, done);
  const bool same = now.plan == session_.model.plan && !now.network;
  if (now.step != done || same) return;
  session_.take_plan(now);
}

bool LivePlan::asks() const {
  // Labels of a trace are those of one plan.
  return measuring_ && session_.is_first() && profiling_.done() &&
         !session_.trace.on();
}

void LivePlan::add(double seconds) {
  const bool repeats =
      session_.model.decisions.back().step > session_.progress.done;
  if (!watches_ || measuring_ || repeats) return;
  if (drift_.add(seconds)) look_again();
}

LiveOutcome LivePlan::decide() {
  const Machines machines = session_.machines();
  LiveOutcome outcome = decide_live(
      {session_.config, session_.comm, *session_.backend,
       static_cast<std::size_t>(session_.threads), session_.model.as_planned(),
       session_.site(), &machines, session_.progress.done, session_.densities(),
       session_.model.plan},
      [this] { return profiling_.profile(); }, session_.model.decisions);
  session_.take_plan(session_.model.decisions.back());
  measuring_ = false;
  drift_.restart();
  return outcome;
}

}  // namespace sluice
