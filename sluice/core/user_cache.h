#pragma once

#include <string>

namespace sluice {

// Where what was prepared for this user is kept: sluice in $XDG_CACHE_HOME or
// ~/.cache. It need not be there yet. Empty if there is no such place.
std::string user_cache();

}  // namespace sluice
