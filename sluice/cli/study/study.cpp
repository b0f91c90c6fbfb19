#include "sluice/cli/commands.h"

namespace sluice {

void add_study(CLI::App& app) {
  CLI::App* study = app.add_subcommand(
      "study", "What gradients are like, and what proofs assume of them");
  study->require_subcommand(1);
  add_study_gradients(*study);
  add_study_convergence(*study);
  add_study_costs(*study);
}

}  // namespace sluice
