#include "sluice/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sluice/core/error.h"
#include "sluice/core/input_file.h"
#include "sluice/core/json_check.h"
#include "sluice/run/metrics_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Far above anything that is measured. A number beyond it is none, and would
// make the others disappear.
constexpr double kMost = 1e15;

bool is_sane(double value) { return std::abs(value) < kMost; }

// Takes such numbers out of a line; says whether there were any.
bool clean(MetricsLine& line) {
  const MetricsLine usual;
  bool dirty = false;
  const auto reset = [&](double MetricsLine::*value) {
    // A loss may be none.
    if (is_sane(line.*value) || std::isnan(line.*value)) return;
    line.*value = usual.*value;
    dirty = true;
  };
  reset(&MetricsLine::time_s);
  for (const MetricsField& field : metrics_fields(line.kind)) {
    reset(field.value);
  }
  const auto bad = [](const NamedScore& s) { return !is_sane(s.value); };
  return std::erase_if(line.scores, bad) > 0 || dirty;
}

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
    if (step_times_.size() > 1) {
      step_times_.erase(step_times_.begin());
      exposed_.erase(exposed_.begin());
    }
    run_.step_s = median(step_times_);
    run_.exposed_share = run_.step_s > 0 ? median(exposed_) / run_.step_s : 0;
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
    last_step_s_ = step_time(line, count);
    exposed_.push_back(line.exposed_s);
    run_.skipped += line.skipped;
    step_times_.push_back(last_step_s_);
    seconds_ += count * last_step_s_;
    bytes_ += count * line.bytes_per_step;
    density_ += count * line.density;
    k_hat_ += count * line.k_hat_over_k;
    run_.windows.push_back({step, seconds_, line.density, line.target_density,
                            line.k_hat_over_k, line.bytes_per_step,
                            last_step_s_, line.exposed_s, line.select_s,
                            line.wire_s});
    if (std::isfinite(line.loss)) {
      run_.losses.push_back({step, seconds_, line.loss});
    }
  }
  // Where a line does not say, by the clock.
  double step_time(const MetricsLine& line, double count) {
    const double since = line.time_s - last_time_s_;
    last_time_s_ = line.time_s;
    return line.step_s > 0 ? line.step_s : std::max(0.0, since) / count;
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
  double last_time_s_ = 0;
  std::vector<double> step_times_;
  std::vector<double> exposed_;
};

std::string list(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

void note_missing(RunRecord& run, const MetricsReading& metrics) {
  const auto note = [&](const std::string& text) { run.notes.push_back(text); };
  if (!run.begun) {
    note("config.json is missing or cannot be read: settings are unknown");
  }
  if (metrics.lines.empty()) {
    note("metrics.jsonl has no lines yet: there are no curves");
  }
  if (metrics.unreadable > 0) {
    note(concat(metrics.unreadable, " of ",
                metrics.unreadable + metrics.lines.size(),
                " lines of metrics.jsonl cannot be read (half written, or not "
                "metrics) and are left out"));
  }
  if (!metrics.unknown.empty()) {
    note(
        "metrics.jsonl has keys that this version does not know, which are "
        "left out: " +
        list(metrics.unknown));
  }
  if (!metrics.missing.empty()) {
    note("metrics.jsonl is of another version: some lines lack " +
         list(metrics.missing));
  }
  if (!run.summary.is_object()) {
    note("summary.json is missing: the run goes on, or ended before its end");
  }
  if (!metrics.lines.empty() && run.evaluations.empty()) {
    note("nothing was evaluated (--eval-every): there is no score");
  }
}

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
  run.summary = read_json_or_nothing(folder + "/summary.json");
  run.finished = run.begun && run.summary.is_object() &&
                 run.summary.value("stopped", Json()) == false;
  const Json dense = run.summary.is_object()
                         ? run.summary.value("trained_dense", Json())
                         : Json();
  if (dense.is_number()) run.trained_dense = dense.get<double>();
  const MetricsReading metrics = read_all_of_metrics(folder + "/metrics.jsonl");
  Reader reader(run);
  bool strange = false;
  for (MetricsLine line : metrics.lines) {
    strange = clean(line) || strange;
    reader.read(line);
  }
  reader.finish();
  note_missing(run, metrics);
  if (strange) {
    run.notes.push_back("metrics.jsonl has numbers beyond 1e15: left out");
  }
  return run;
}

std::string state_of(const RunRecord& run) {
  if (run.finished) return "finished";
  if (!run.failure.empty()) return "failed";
  if (run.summary.is_object() && run.summary.value("stopped", Json()) == true) {
    return "stopped";
  }
  return run.begun ? "unfinished" : "not begun";
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

std::string read_file_or_nothing(const std::string& path) {
  if (!why_no_file(path).empty()) return {};
  try {
    return read_text_file("report", path);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace sluice
