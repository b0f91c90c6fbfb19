#include "sluice/cli/compare/run_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "sluice/cli/bench/bench.h"
#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/run/metrics_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Adds up what the windows of steps say.
class Reader {
 public:
  explicit Reader(RunRecord& run) : run_(run) {}

  void read(const MetricsLine& line) {
    run_.wall_s = std::max(run_.wall_s, line.time_s);
    if (line.kind == MetricsLine::kTrain) {
      read_steps(line);
    } else {
      read_evaluation(line);
    }
  }

  void finish() {
    // The first window warms up.
    if (step_times_.size() > 1) step_times_.erase(step_times_.begin());
    run_.step_s = median(step_times_);
    run_.bytes_per_step = steps_ > 0 ? bytes_ / steps_ : 0;
    run_.density = steps_ > 0 ? density_ / steps_ : 0;
    run_.k_hat_over_k = steps_ > 0 ? k_hat_ / steps_ : 0;
    run_.wall_s = std::max(run_.wall_s, seconds_);
  }

 private:
  void read_steps(const MetricsLine& line) {
    const auto step = static_cast<double>(line.step);
    const double count = step - steps_;
    if (count <= 0) return;
    steps_ = step;
    last_step_s_ = line.step_s;
    step_times_.push_back(last_step_s_);
    seconds_ += count * last_step_s_;
    bytes_ += count * line.bytes_per_step;
    density_ += count * line.density;
    k_hat_ += count * line.k_hat_over_k;
    if (std::isfinite(line.loss)) {
      run_.losses.push_back({step, seconds_, line.loss});
    }
  }
  // It may stand between two windows.
  void read_evaluation(const MetricsLine& line) {
    const auto step = static_cast<double>(line.step);
    if (line.scores.empty()) return;
    run_.kind = line.scores[0].kind;
    run_.evaluations.push_back({step, seconds_ + (step - steps_) * last_step_s_,
                                line.scores[0].value});
  }

  RunRecord& run_;
  double steps_ = 0;
  double seconds_ = 0;
  double last_step_s_ = 0;
  double bytes_ = 0;
  double density_ = 0;
  double k_hat_ = 0;
  std::vector<double> step_times_;
};

}  // namespace

double RunRecord::best_score() const {
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const Evaluated& e : evaluations) {
    if (kind->better(e.score, best)) best = e.score;
  }
  return best;
}

const ScoreKind* score_of(const std::vector<RunRecord>& runs) {
  for (const RunRecord& run : runs) {
    if (!run.evaluations.empty()) return run.kind;
  }
  return &score_kind("accuracy");
}

std::optional<double> RunRecord::seconds_to(double target) const {
  for (const Evaluated& e : evaluations) {
    if (!kind->better(target, e.score)) return e.seconds;
  }
  return std::nullopt;
}

Json read_json_or_nothing(const std::string& path) {
  const std::string text = read_file_or_nothing(path);
  return is_sound_json(text) ? Json::parse(text) : Json();
}

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  run.failure = read_file_or_nothing(folder + "/" + kFailureFile);
  run.config = read_json_or_nothing(folder + "/config.json");
  run.begun = run.config.is_object();
  const Json summary = read_json_or_nothing(folder + "/summary.json");
  run.finished = run.begun && summary.is_object() &&
                 summary.contains("stopped") && summary["stopped"] == false;
  Reader reader(run);
  for (const MetricsLine& line : read_metrics(folder + "/metrics.jsonl")) {
    reader.read(line);
  }
  reader.finish();
  return run;
}

std::string config_difference(const Json& run, const Json& wanted,
                              const Json& defaults) {
  for (const auto& [key, value] : wanted.items()) {
    if (key == "out") continue;
    const auto it = run.find(key);
    const Json& has = it != run.end() ? *it : defaults.value(key, Json());
    if (has != value) {
      return concat(key, " is ", has.dump(), ", not ", value.dump());
    }
  }
  return {};
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error(concat(
        "[compare] '", path, "' must be writable: ", std::strerror(errno)));
  }
}

std::string read_file_or_nothing(const std::string& path) {
  if (!why_no_file(path).empty()) return {};
  return read_text_file("compare", path);
}

}  // namespace sluice
