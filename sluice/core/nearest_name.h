#pragma once

#include <span>
#include <string_view>

namespace sluice {

// The one of `names`, of which there is one at least, that `name` was probably
// meant to be.
std::string_view nearest_name(std::span<const std::string_view> names,
                              std::string_view name);

}  // namespace sluice
