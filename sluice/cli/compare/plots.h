#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/cli/compare/queue.h"

namespace sluice {

// The plots of a comparison, as names and contents of files: loss against steps
// and against time, and the score against time. A panel per density, a curve
// per method, the mean over the seeds that are finished; losses are smoothed a
// little.
std::vector<std::pair<std::string, std::string>> make_plots(
    const std::vector<Cell>& cells, const std::vector<RunRecord>& runs);

}  // namespace sluice
