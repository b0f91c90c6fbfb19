#pragma once

#include <string>
#include <vector>

#include "sluice/cli/compare/queue.h"
#include "sluice/report/page.h"

// Pages of runs.

namespace sluice {

struct RunsOnPage {
  std::string title;  // empty: that of the job
  std::vector<Cell> cells;
  std::vector<RunRecord> runs;  // of each cell
  std::vector<std::string> notes;
  std::string target;  // as parse_target() takes it; empty: none for one run
  std::string folder;  // where the page will be
  bool live = false;   // what is not finished is running
};

Page page_of_run(const RunsOnPage& what);
Page page_of_runs(const RunsOnPage& what);

// A cell for a run that no comparison knows: its method, density and seed as
// its configuration says.
Cell cell_of_run(const std::string& folder, const RunRecord& run);
// Gives runs of one method and density that differ in other settings than the
// seed names of their own.
void tell_apart(std::vector<Cell>& cells);

}  // namespace sluice
