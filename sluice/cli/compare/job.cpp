#include "sluice/cli/compare/job.h"

#include <stdexcept>

#include "sluice/cli/shared/child.h"

namespace sluice {

nlohmann::ordered_json job_configuration(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "train");
  flags.insert(flags.end(), {"--print-config"});
  const Finished done = run_self(flags);
  if (!done.well) {
    std::string why = done.err;
    while (!why.empty() && why.back() == '\n') why.pop_back();
    throw std::invalid_argument(
        why.empty() ? "[train] the job must be one that can be checked" : why);
  }
  return nlohmann::ordered_json::parse(done.out);
}

}  // namespace sluice
