#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/report/run_record.h"

// What to do next, from the numbers of runs. Where the limits come from is in
// docs/report.md.

namespace sluice {

// What a method came to: of one run, or the mean over its seeds.
struct MethodResult {
  std::string name;  // "topk 1 %"
  nlohmann::ordered_json config;
  std::size_t runs = 1;
  double step_s = 0;
  double exposed_share = 0;
  double k_hat_over_k = 1;
  // Against the dense run beside it, if there is one: how much worse, in points
  // of percentages or as a share; half of what lies between the seeds; and how
  // many times sooner the target was reached.
  std::optional<double> behind;
  double spread = 0;
  std::optional<double> speedup;
};

// In the order of what matters; never empty.
std::vector<std::string> next_steps(const std::vector<MethodResult>& results,
                                    const ScoreKind& kind);

// What holds for one run alone: going on, more steps, skipped ones. `folder` is
// where it is.
std::vector<std::string> next_steps_of_run(const RunRecord& run,
                                           const std::string& folder);

}  // namespace sluice
