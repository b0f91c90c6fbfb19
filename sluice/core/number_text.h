#pragma once

#include <string>

namespace sluice {

// Returns the shortest text that reads back as the same number, for messages
// that compare what was given with a bound: "1.0000001", where a stream prints
// "1".
std::string shortest(double value);

}  // namespace sluice
