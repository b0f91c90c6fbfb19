#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The bytes of a file, inflated if it is gzip. Throws std::runtime_error,
// beginning with "[`owner`]", if it cannot be read, is a damaged or cut gzip
// file, or holds more than `most` bytes.
std::vector<std::uint8_t> read_file(std::string_view owner,
                                    const std::string& path,
                                    std::size_t most = std::size_t{1} << 31);

// The files of a data set. `names` are looked for in `folder`, each alternative
// of "a|b" in turn, and the paths of all are returned. Throws
// std::runtime_error, naming every missing file, the folder, and `source`
// (where to get them), unless all are there.
std::vector<std::string> find_files(std::string_view owner,
                                    const std::string& folder,
                                    const std::vector<std::string>& names,
                                    std::string_view source);

}  // namespace sluice
