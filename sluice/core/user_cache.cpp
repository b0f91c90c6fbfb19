#include "sluice/core/user_cache.h"

#include <cstdlib>

namespace sluice {

std::string user_cache() {
  // The standard has it that paths that are not absolute are passed over.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/sluice";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.cache/sluice";
}

}  // namespace sluice
