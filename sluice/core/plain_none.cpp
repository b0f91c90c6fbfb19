#include "sluice/core/plain_none.h"

#include <stdexcept>

#include "sluice/core/params.h"

namespace sluice {

std::string plain_none(std::string_view method) try {
  const Spec spec = parse_spec(method);
  const bool none = spec.name == "none" && spec.params.empty();
  return none ? "none" : std::string(method);
} catch (const std::invalid_argument&) {
  return std::string(method);
}

}  // namespace sluice
