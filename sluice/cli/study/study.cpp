#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"

namespace sluice {

void add_study(CLI::App& app) {
  CLI::App* study = app.add_subcommand(
      "study", "What gradients are like, and what proofs assume of them");
  study->require_subcommand(1);
  add_study_gradients(*study);
  add_study_convergence(*study);
  add_study_costs(*study);
  add_examples(*study, {"sluice study gradients --out runs/laws --every 20 -- "
                        "--model lenet --max-steps 300",
                        "sluice study costs --n 25M"});
}

}  // namespace sluice
