#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "sluice/run/events.h"
#include "sluice/run/line_writer.h"
#include "sluice/run/metrics_file.h"
#include "sluice/run/score.h"

namespace sluice {

// Sums over some steps, and over the ranks once they are added up.
struct StepTotals {
  double ranks = 1;
  double steps = 0;
  double samples = 0;  // in the unit of the task: images, tokens
  double loss = 0;     // weighted by samples
  double score = 0;    // the same of the task's training score, if any
  double selected = 0;
  double budget = 0;
  double sparse_elements = 0;
  double dense_elements = 0;
  double bytes = 0;  // sent
  double exposed = 0;
  double select = 0;
  double wire = 0;
  double seconds = 0;
  double skipped = 0;
  double replaced = 0;  // samples that could not be read

  void add(const StepTotals& other);

  double mean_loss() const { return loss / samples; }
  double mean_score() const { return score / samples; }
  double samples_per_second() const { return ranks * samples / seconds; }
  // The share of all gradient entries that is sent.
  double density() const {
    return (selected + dense_elements) / (sparse_elements + dense_elements);
  }
  double sent_over_budget() const { return budget > 0 ? selected / budget : 1; }
  double per_step(double sum) const { return sum / steps; }
};

struct Evaluation {
  double loss = 0;
  double samples = 0;
  double replaced = 0;        // of them, that could not be read
  std::vector<Score> scores;  // the one that counts first
};

// Where a run is.
struct Moment {
  std::uint64_t step = 0;  // steps done
  double epoch = 0;
  double rate = 0;            // learning rate
  double target_density = 0;  // that was asked for
};

// What a run tells the world, on rank 0: metrics.jsonl, an event file, and
// people. For these it is a bar on a terminal (standard error), else lines. A
// reader of these that is slow or gone holds nothing up; where they cannot be
// written for another reason, standard error says so once.
class Metrics {
 public:
  struct Options {
    std::string folder;
    std::uint64_t done = 0;   // steps of before; later ones are forgotten
    std::uint64_t total = 0;  // steps of the run
    bool lines_to_stderr = false;
    // What training steps tell of themselves; null: nothing but the loss.
    const ScoreKind* training_score = nullptr;
    std::string unit = "samples";  // what a task calls them
  };
  // Throws std::runtime_error if the files cannot be written; so do the others.
  explicit Metrics(const Options& options);

  void trained(const Moment& at, const StepTotals& window);
  void evaluated(const Moment& at, const Evaluation& evaluation);
  // A line for people.
  void say(const std::string& line);
  // Removes the bar, and waits for who reads the lines.
  void finish();

 private:
  std::string describe(const StepTotals& window) const;
  void add_scores(const std::string& prefix, const MetricsLine& line);
  MetricsLine line_at(const Moment& at, MetricsLine::Kind kind) const;
  void write(const std::string& line);
  std::vector<std::string> parts(const Moment& at,
                                 const StepTotals& window) const;
  void draw(const std::vector<std::string>& parts);
  void clear();
  void check_output();
  double seconds() const;  // since it began

  Options options_;
  bool terminal_;
  LineWriter out_;
  bool told_ = false;  // that out_ has failed
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  EventWriter events_;
};

}  // namespace sluice
