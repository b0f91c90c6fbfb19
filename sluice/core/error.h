#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace sluice {

// Everything streamed into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// Throws std::invalid_argument with the parts as its message unless `ok`.
//
// Messages read "[operation] what must hold, what was given, what would work".
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw std::invalid_argument(concat(parts...));
}

}  // namespace sluice
