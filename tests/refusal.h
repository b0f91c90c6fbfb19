#pragma once

#include <stdexcept>
#include <string>

namespace sluice::testing {

// What std::invalid_argument says that `f` throws; "nothing" if it does not.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace sluice::testing
