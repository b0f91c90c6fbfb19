#include "sluice/cli/compare/run_record.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sluice/cli/bench/bench.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Numbers that are not finite are null in JSON.
double number(const Json& json, const char* key, double otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : otherwise;
}

// Adds up what the windows of steps say.
class Reader {
 public:
  explicit Reader(RunRecord& run) : run_(run) {}

  void read(const Json& line) {
    run_.wall_s = std::max(run_.wall_s, number(line, "time_s", 0));
    if (line.value("kind", "") == "train") read_window(line);
    if (line.value("kind", "") == "eval") read_evaluation(line);
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
  void read_window(const Json& line) {
    const double step = number(line, "step", steps_);
    const double count = step - steps_;
    if (count <= 0) return;
    steps_ = step;
    last_step_s_ = number(line, "step_s", 0);
    step_times_.push_back(last_step_s_);
    seconds_ += count * last_step_s_;
    bytes_ += count * number(line, "bytes_per_step", 0);
    density_ += count * number(line, "density", 1);
    k_hat_ += count * number(line, "k_hat_over_k", 1);
    const auto loss = line.find("loss");
    if (loss != line.end() && loss->is_number()) {
      run_.losses.push_back({step, seconds_, loss->get<double>()});
    }
  }
  // It may stand between two windows.
  void read_evaluation(const Json& line) {
    const double step = number(line, "step", steps_);
    run_.accuracies.push_back({step, seconds_ + (step - steps_) * last_step_s_,
                               number(line, "accuracy", 0)});
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

double RunRecord::best_accuracy() const {
  double best = 0;
  for (const Accuracy& a : accuracies) best = std::max(best, a.accuracy);
  return best;
}

std::optional<double> RunRecord::seconds_to(double target) const {
  for (const Accuracy& a : accuracies) {
    if (a.accuracy >= target) return a.seconds;
  }
  return std::nullopt;
}

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  run.failure = read_file_or_nothing(folder + "/" + kFailureFile);
  run.config = Json::parse(read_file_or_nothing(folder + "/config.json"),
                           nullptr, false);
  run.begun = run.config.is_object();
  const Json summary = Json::parse(
      read_file_or_nothing(folder + "/summary.json"), nullptr, false);
  run.finished = run.begun && summary.is_object() &&
                 summary.contains("stopped") && summary["stopped"] == false;
  std::ifstream metrics(folder + "/metrics.jsonl");
  Reader reader(run);
  for (std::string line; std::getline(metrics, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object()) reader.read(json);
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
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace sluice
