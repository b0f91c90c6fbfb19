#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sluice/run/score.h"

// What the folder of a run says about it.

namespace sluice {

// Seconds are those of training steps, without evaluation and checkpoints.
struct RunRecord {
  struct Loss {
    double step = 0;
    double seconds = 0;
    double loss = 0;
  };
  // Some steps that were logged together.
  struct Window {
    double step = 0;  // the last of them
    double seconds = 0;
    double density = 1;
    double target_density = 1;
    double k_hat_over_k = 1;
    double bytes_per_step = 0;
    double step_s = 0;
    double exposed_s = 0;
    double select_s = 0;
    double wire_s = 0;
  };
  struct Evaluated {
    double step = 0;
    double seconds = 0;
    double score = 0;
  };

  bool begun = false;     // there is a run
  bool finished = false;  // to its end
  std::string failure;    // why the last try failed; empty if it did not
  nlohmann::ordered_json config;  // null if there is none

  nlohmann::ordered_json summary;  // null if there is none
  std::vector<std::string> notes;  // what is missing or not as it should be

  std::vector<Window> windows;
  std::vector<Loss> losses;  // one per window of steps that was logged
  // The score that counts, and what evaluations came to.
  const ScoreKind* kind = &score_kind("accuracy");
  std::vector<Evaluated> evaluations;
  double step_s = 0;  // the median over windows
  double bytes_per_step = 0;
  double density = 0;  // of what is sent
  double k_hat_over_k = 0;
  double exposed_share = 0;  // of the time of a step; the median over windows
  double skipped = 0;        // steps
  // See TrainSummary; 0 for runs that have not ended.
  double trained_dense = 0;
  double wall_s = 0;  // roughly what it took, with everything

  double final_score() const { return evaluations.back().score; }
  double best_score() const;
  // When an evaluation first came to `target`.
  std::optional<double> seconds_to(double target) const;
};

// The score that counts in runs of one job.
const ScoreKind* score_of(const std::vector<RunRecord>& runs);

// "finished", "stopped" by a signal, "failed", "unfinished" or "not begun": all
// that the files tell.
std::string state_of(const RunRecord& run);

// Files that compare puts into a run folder beside those of the run.
inline constexpr const char* kFailureFile = "failure.txt";
inline constexpr const char* kLogFile = "log.txt";

// Never throws for what is missing or half written: that is not there, and
// `notes` say so.
RunRecord read_run(const std::string& folder);

// The first key in which the configuration of a run is not `wanted`, as
// "lr is 0.05, not 0.1"; empty if none. `defaults` serve for keys that a run of
// an older version lacks; its folder does not matter.
std::string config_difference(const nlohmann::ordered_json& run,
                              const nlohmann::ordered_json& wanted,
                              const nlohmann::ordered_json& defaults);

// All of a file; empty if it cannot be read.
std::string read_file_or_nothing(const std::string& path);
// Null if it cannot be read or is no JSON.
nlohmann::ordered_json read_json_or_nothing(const std::string& path);

}  // namespace sluice
