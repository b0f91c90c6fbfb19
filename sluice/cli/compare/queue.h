#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/report/run_record.h"

// Runs the cells of a comparison.

namespace sluice {

// One run: a method, a density and a seed.
struct Cell {
  std::string method;
  double density = 1;
  bool fixed_density = false;
  std::int64_t seed = 1;
  std::string folder;
  nlohmann::ordered_json config;  // what is to run, `out` included
  bool replace = false;           // the run that is in the folder

  // "topk 0.01 seed 1".
  std::string describe() const;
};

struct QueueOptions {
  std::size_t jobs = 1;
  double budget_s = 0;  // 0: any
  bool keep_checkpoints = false;
  bool pages = true;  // runs write their report.html
};

// What became of the cells that were not finished before.
struct QueueOutcome {
  std::size_t failed = 0;
  std::size_t left = 0;  // not begun, or not ended
  bool stopped = false;  // by a signal
};

// Runs `todo` (indices into `cells`) as `sluice train` processes, so many at a
// time, and says on standard error the outcome of each. A run that is there
// goes on from its checkpoint if it has one. One that fails leaves the reason
// in its folder, and the others go on. Nothing is begun that would probably not
// end within the budget, as `runs` (what is known of all cells) tell. A signal
// stops what runs; it is saved.
QueueOutcome run_cells(const std::vector<Cell>& cells,
                       const std::vector<RunRecord>& runs,
                       std::vector<std::size_t> todo,
                       const QueueOptions& options);

}  // namespace sluice
