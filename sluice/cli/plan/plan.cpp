#include "sluice/cli/commands.h"

namespace sluice {

void add_plan(CLI::App& app) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Make, explain, simulate and compare plans of exchange");
  plan->require_subcommand(1);
  add_plan_make(*plan);
  add_plan_explain(*plan);
  add_plan_simulate(*plan);
  add_plan_diff(*plan);
  add_plan_profile(*plan);
  add_plan_claims(*plan);
}

}  // namespace sluice
