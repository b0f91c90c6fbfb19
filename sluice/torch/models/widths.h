#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

// The widths of layers in a parameter of that name, "1024-512"; none if it is
// empty. Throws std::invalid_argument, naming the model, unless they are whole
// numbers from 1 to 1000000.
std::vector<std::int64_t> parse_widths(std::string_view model,
                                       std::string_view text);

}  // namespace sluice
