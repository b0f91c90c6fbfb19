#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/report/page.h"
#include "sluice/report/plot.h"
#include "sluice/report/run_record.h"

// The curves of runs, and figures of them for a page.

namespace sluice {

// What one run draws.
using Points = Curve (*)(const RunRecord& run);
Curve loss_by_step(const RunRecord& run);
Curve loss_by_time(const RunRecord& run);
Curve score_by_step(const RunRecord& run);
Curve score_by_time(const RunRecord& run);

// Point by point, as far as all of them go.
Curve mean_of(const std::vector<Curve>& curves);
// At most about so many points, of which every peak is one.
Curve thinned(const Curve& curve, std::size_t most);
// Whether some end much later than others, which would squeeze these to the
// left: a logarithmic axis does not.
bool ends_differ(const std::vector<Panel>& panels);

// Runs that are one line: the seeds of a method at a density.
struct RunGroup {
  std::string method;
  std::string part;  // where there are too many lines, it has a figure of its
                     // own; empty: in the figures of all parts
  std::vector<const RunRecord*> runs;

  std::string name() const {
    return part.empty() ? method : method + " " + part;
  }
};

struct Shown {
  const ScoreKind* kind = nullptr;
  std::optional<double> target;  // of that score
};

// The score and the loss, by steps and by time. Empty figures are left out, as
// they are by the others.
std::vector<Figure> learning_figures(const std::vector<RunGroup>& groups,
                                     const Shown& shown);
// Bytes, densities asked for and achieved, and k_hat / k, by steps.
std::vector<Figure> traffic_figures(const std::vector<RunGroup>& groups);
// What a step takes and waits, by steps.
std::vector<Figure> time_figures(const std::vector<RunGroup>& groups);

}  // namespace sluice
