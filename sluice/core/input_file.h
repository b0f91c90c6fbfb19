#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Files that are given by name. Anything can have that name: a folder, a pipe
// that nobody writes to, a device without an end.

namespace sluice {

// Why `path` is no file that can be read, as in "it is a pipe; ..."; empty if
// it is one. Never waits, as opening a pipe would.
std::string why_no_file(const std::string& path);

// Far above any configuration, plan or manifest.
inline constexpr std::size_t kMostText = std::size_t{64} << 20;

// All of a file. Throws std::runtime_error, beginning with "[`owner`]", for
// what is no file that can be read or has more than `most` bytes.
std::string read_text_file(std::string_view owner, const std::string& path,
                           std::size_t most = kMostText);

}  // namespace sluice
