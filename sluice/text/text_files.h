#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The path of the first of `names` that is a file in `folder`. Throws
// std::runtime_error, naming them all, the folder, and `source` (where to get
// them), if none is.
std::string text_file_in(std::string_view owner, const std::string& folder,
                         const std::vector<std::string>& names,
                         std::string_view source);

// The same, but empty if none is.
std::string text_file_if_any(const std::string& folder,
                             const std::vector<std::string>& names);

// A hash of bytes, at memory speed; the same everywhere and forever.
std::uint64_t content_hash(std::string_view bytes);

}  // namespace sluice
