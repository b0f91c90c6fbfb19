#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/cli/compare/queue.h"

// The table and the plots of a comparison.

namespace sluice {

// The score whose time is compared: "88.5" is a number as people read it, a
// percentage of accuracies; "dense-0.5" is so much worse than the mean of what
// dense came to, in points of percentages, else in percent of dense's.
struct Target {
  bool below_dense = true;
  double number = 0.5;
};
// Throws std::invalid_argument for anything else.
Target parse_target(const std::string& text);

struct Report {
  std::vector<nlohmann::ordered_json> rows;  // by method and density
  std::vector<nlohmann::ordered_json> runs;  // by cell
  const ScoreKind* kind = nullptr;           // the score that counts
  std::optional<double> target;              // of it; none without dense
  std::vector<std::string> notes;
};

struct HowRun {
  std::size_t jobs = 1;  // at a time
  std::string grid;      // that recipes were chosen from; empty: none
};

// `runs` has what is known of each cell; those that are not finished count in
// `notes` only.
Report make_report(const std::vector<Cell>& cells,
                   const std::vector<RunRecord>& runs, const Target& target,
                   const HowRun& how);

// The table and its notes, for people.
std::string print_report(const Report& report);

// table.txt, table.md, table.csv, table.json, loss-steps.svg, loss-time.svg
// and SCORE-time.svg in `folder`. Throws std::runtime_error.
void write_report(const std::string& folder, const Report& report,
                  const std::vector<Cell>& cells,
                  const std::vector<RunRecord>& runs);

}  // namespace sluice
