#pragma once

#include <string_view>
#include <vector>

namespace sluice {

// The numbers of "30-60-80.5". Parameters separate them by '-', for ',' ends a
// parameter; so they cannot be negative. An empty text is an empty list. Throws
// std::invalid_argument, beginning with `what`, for anything else.
std::vector<double> parse_number_list(std::string_view what,
                                      std::string_view text);

}  // namespace sluice
