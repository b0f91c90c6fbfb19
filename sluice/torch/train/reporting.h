#pragma once

#include "sluice/run/metrics.h"
#include "sluice/run/run_lock.h"
#include "sluice/run/summary.h"
#include "sluice/torch/train/checkpointing.h"
#include "sluice/torch/train/live_plan.h"

namespace sluice {

// What a run tells of itself: files of its folder, lines for people, and the
// summary. Rank 0 writes and speaks.
//
// A file that cannot be written, or a folder that is not `lock`'s any more, is
// no reason to lose the run: it is kept as problem(), and nothing is written
// from then on.
class Reporting {
 public:
  // Writes the configuration and the plan into the run folder, and says what
  // begins, or goes on from `saved`. Throws std::runtime_error.
  Reporting(Session& session, const RunLock& lock, bool lines_to_stderr,
            const SavedRun* saved);

  // The configuration and the plan, into the folder of the session.
  void write_setup() const;
  const std::string& problem() const { return problem_; }

  void say(const std::string& line) {
    if (metrics_ != nullptr) metrics_->say(line);
  }
  void add(const StepTotals& step) { window_.add(step); }
  // What was added since the last time, over all ranks. A call of all ranks,
  // as are write_trace() and finish().
  void log();
  void evaluated(const Evaluation& result);
  // What was decided, and by which costs.
  void planned(const LiveOutcome& outcome);
  void saved(const std::string& folder) { summary_.checkpoint = folder; }
  // Once, if steps were traced.
  void write_trace();
  TrainSummary finish(bool stopped);

  double best_score() const { return summary_.best_score; }

 private:
  Moment moment() const;
  // Unless something went wrong before.
  void try_to_write(const std::string& file,
                    const std::function<void()>& write);
  void say_what_begins();
  // Once, when a plan sends whole what was to be selected from.
  void say_if_dense();
  void say_what_goes_on(const SavedRun& saved);

  Session& session_;
  const RunLock& lock_;
  std::unique_ptr<Metrics> metrics_;  // on rank 0
  std::string problem_;
  bool trace_written_ = false;
  bool said_dense_ = false;
  StepTotals window_;  // since the last log, of this rank
  StepTotals all_;     // of the run, of all ranks, on rank 0
  TrainSummary summary_;
};

}  // namespace sluice
