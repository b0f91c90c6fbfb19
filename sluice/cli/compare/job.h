#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {

// The configuration (see TrainConfig) that `sluice train` makes of these flags.
// Throws std::invalid_argument with what it says against them.
nlohmann::ordered_json job_configuration(std::vector<std::string> flags);

}  // namespace sluice
