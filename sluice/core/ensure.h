#pragma once

#include <stdexcept>

#include "sluice/core/error.h"

namespace sluice {

// As `require`, for what the outside world got wrong (a file, a disk) rather
// than the caller: throws std::runtime_error.
template <class... Parts>
void ensure(bool ok, const Parts&... parts) {
  if (!ok) throw std::runtime_error(concat(parts...));
}

// As `require`, for calls that come at the wrong time: throws std::logic_error.
template <class... Parts>
void expect(bool ok, const Parts&... parts) {
  if (!ok) throw std::logic_error(concat(parts...));
}

}  // namespace sluice
