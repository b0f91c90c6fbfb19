#pragma once

#include <string>
#include <vector>

#include "sluice/report/run_record.h"

namespace CLI {
class App;
}

namespace sluice {

// What both studies of a job ask for.
struct StudiedJob {
  std::string out;
  std::int64_t every = 10;
  std::string layers = "*";
  std::int64_t least = 256;
  std::string preset;
  std::string config;
  std::vector<std::string> job;  // flags of `sluice train`
  bool overwrite = false;
  bool json = false;

  bool has_job() const {
    return !preset.empty() || !config.empty() || !job.empty();
  }
};
void add_studied_job(CLI::App& command, StudiedJob& options);
// The last one of an option wins, but for those that take several.
void let_last_win(CLI::App& command);

// A run that was watched.
struct StudiedRun {
  std::string method;
  nlohmann::ordered_json config;
  RunRecord record;
  std::vector<nlohmann::ordered_json> rows;  // see GradientStudy and others
};

// Trains with each method (see make_methods; one empty word: the job as it is),
// one after another, below the folder, watched for `study`, a JSON object as
// make_study() takes it. Throws std::runtime_error if one fails.
std::vector<StudiedRun> run_studied(const StudiedJob& options,
                                    const std::vector<std::string>& methods,
                                    double density,
                                    const nlohmann::ordered_json& study);

// "lenet on fashion-mnist, 2 workers, 300 steps".
std::string describe_job(const StudiedRun& run);

// "a,b" as "a b", which parameters of studies take.
std::string spaced(const std::string& list);

}  // namespace sluice
