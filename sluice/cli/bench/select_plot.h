#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {

// Rows of `bench select` as a picture: milliseconds in steady state by density,
// or by elements if there is one density. A chart per device, data and what is
// left; a line per sparsifier, and one for the floor.
std::string draw_selects(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace sluice
