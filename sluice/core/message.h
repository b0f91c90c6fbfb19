#pragma once

#include <exception>
#include <string>

namespace sluice {

// Returns what an exception says. Exceptions of the C++ library name only what
// the system said ("Resource temporarily unavailable"); their messages are
// completed by what failed, on which file, and what to do.
std::string message_of(const std::exception& e);

}  // namespace sluice
