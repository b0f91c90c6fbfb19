#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/run/score.h"

namespace sluice {

// A line of metrics.jsonl: some training steps, or an evaluation. A number that
// is not finite, which JSON lacks, or not there reads as what stands here.
struct MetricsLine {
  enum Kind { kTrain, kEval };

  Kind kind = kTrain;
  std::uint64_t step = 0;  // steps done
  double epoch = 0;
  double time_s = 0;  // since the process began
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::vector<NamedScore> scores;  // the one that counts first
  double replaced = 0;             // samples that could not be read
  // Of an evaluation.
  double samples = 0;
  // Of training: the learning rate, then means over the steps.
  double lr = 0;
  double samples_per_s = 0;
  double density = 1;         // of what is sent
  double target_density = 1;  // that was asked for
  double k_hat_over_k = 1;
  double bytes_per_step = 0;
  double step_s = 0;
  double exposed_s = 0;
  double select_s = 0;
  double wire_s = 0;
  double skipped = 0;  // steps
};

// The numbers that a kind of line has beside step, epoch, time and scores.
struct MetricsField {
  const char* name;
  double MetricsLine::*value;
};
std::span<const MetricsField> metrics_fields(MetricsLine::Kind kind);

std::string to_json(const MetricsLine& line);
// Nothing if it is not a line of metrics, say because it is half written.
std::optional<MetricsLine> metrics_line_from_json(std::string_view text);

// All lines of a file, but for those that are none; empty if it is not there.
std::vector<MetricsLine> read_metrics(const std::string& path);

// The same, with what did not become part of the lines.
struct MetricsReading {
  std::vector<MetricsLine> lines;
  std::size_t unreadable = 0;     // lines that are none
  std::set<std::string> unknown;  // keys that this version does not know
  std::set<std::string> missing;  // keys that some lines should have
};
MetricsReading read_all_of_metrics(const std::string& path);
// Removes the lines of later steps from a file, if it is there. Throws
// std::runtime_error.
void forget_metrics_after(const std::string& path, std::uint64_t step);

}  // namespace sluice
