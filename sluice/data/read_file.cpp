#include "sluice/data/read_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"

namespace sluice {
namespace {

// The first of "a|b" that is a file in `folder`; empty if none is.
std::string find_one(const std::filesystem::path& folder,
                     std::string_view alternatives) {
  while (true) {
    const std::size_t bar = alternatives.find('|');
    const auto path = folder / alternatives.substr(0, bar);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path.string();
    if (bar == std::string_view::npos) return {};
    alternatives.remove_prefix(bar + 1);
  }
}

std::string readable(std::string names) {
  for (std::size_t bar; (bar = names.find('|')) != std::string::npos;) {
    names.replace(bar, 1, " or ");
  }
  return names;
}

}  // namespace

void InflatedFile::Closer::operator()(gzFile_s* file) const { gzclose(file); }

InflatedFile::InflatedFile(std::string_view owner, std::string path)
    : owner_(owner), path_(std::move(path)) {
  const std::string problem = why_no_file(path_);
  ensure(problem.empty(), "[", owner_, "] '", path_,
         "' must be a file that can be read: ", problem);
  // Reads files that are not gzip as they are.
  file_.reset(gzopen(path_.c_str(), "rb"));
  ensure(file_ != nullptr, "[", owner_, "] '", path_,
         "' must be a file that can be read; is there memory left?");
}

std::vector<std::uint8_t> InflatedFile::read(std::size_t n) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < n) {
    const std::size_t before = bytes.size();
    const std::size_t wanted = std::min(n - before, kChunk);
    bytes.resize(before + wanted);
    const int got = gzread(file_.get(), bytes.data() + before,
                           static_cast<unsigned>(wanted));
    int error = Z_OK;
    const char* what = gzerror(file_.get(), &error);
    // A cut gzip file gives what it has first, and Z_BUF_ERROR with it.
    ensure(got >= 0 && error == Z_OK, "[", owner_, "] '", path_,
           "' must be a whole gzip file, but: ",
           error == Z_ERRNO ? std::strerror(errno) : what,
           "; fetch it once more");
    bytes.resize(before + static_cast<std::size_t>(got));
    if (got == 0) break;
  }
  return bytes;
}

std::vector<std::uint8_t> read_file(std::string_view owner,
                                    const std::string& path, std::size_t most) {
  std::vector<std::uint8_t> bytes = InflatedFile(owner, path).read(most + 1);
  ensure(bytes.size() <= most, "[", owner, "] '", path, "' must hold at most ",
         most, " bytes; it is something else");
  return bytes;
}

std::vector<std::string> find_files(std::string_view owner,
                                    const std::string& folder,
                                    const std::vector<std::string>& names,
                                    std::string_view source) {
  std::vector<std::string> paths;
  std::string missing;
  for (const std::string& name : names) {
    paths.push_back(folder.empty() ? "" : find_one(folder, name));
    if (paths.back().empty()) {
      missing += concat(missing.empty() ? "" : ", ", readable(name));
    }
  }
  ensure(missing.empty(), "[", owner, "] ",
         folder.empty() ? "a folder must be given that holds "
                        : concat("folder '", folder, "' must hold "),
         missing, "; ", source);
  return paths;
}

}  // namespace sluice
