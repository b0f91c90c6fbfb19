#include "sluice/cli/commands.h"
#include "sluice/cli/shared/help.h"

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
  add_examples(*plan,
               {"sluice plan profile --model resnet50 --forward 0.09 "
                "--backward 0.12",
                "sluice plan make --net 50us,1Gbit --workers 16",
                "sluice plan explain plan.json --net 50us,1Gbit --workers "
                "16"});
}

}  // namespace sluice
