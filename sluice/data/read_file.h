#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;

namespace sluice {

// A file that is read from its begin on, inflated if it is gzip. All members
// throw std::runtime_error, beginning with "[`owner`]", if the file cannot be
// read or is a damaged or cut gzip file.
class InflatedFile {
 public:
  InflatedFile(std::string_view owner, std::string path);

  // The next `n` bytes; fewer if the file ends. Memory grows with what is
  // there, not with `n`.
  std::vector<std::uint8_t> read(std::size_t n);

 private:
  struct Closer {
    void operator()(gzFile_s* file) const;
  };

  std::string owner_;
  std::string path_;
  std::unique_ptr<gzFile_s, Closer> file_;
};

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
