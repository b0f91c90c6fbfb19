#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Returns "none" where a method is that by another spelling, as
// {"name": "none"}; any other text, sound or not, as it is. For whoever reads
// methods from outside, so that all others may compare names as text.
std::string plain_none(std::string_view method);

}  // namespace sluice
