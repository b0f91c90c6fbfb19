#include "sluice/core/message.h"

#include <filesystem>
#include <ios>
#include <system_error>

#include "sluice/core/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string of_files(const fs::filesystem_error& e) {
  std::string names;
  if (!e.path1().empty()) names = concat("'", e.path1().string(), "'");
  if (!e.path2().empty()) names += concat(" and '", e.path2().string(), "'");
  return concat("[files] ", names.empty() ? "a file or folder" : names,
                " must be usable, but: ", e.code().message(),
                "; check the name, the permissions and the disk");
}

std::string of_system(const std::system_error& e) {
  // The library starts threads, and nothing else of it fails like this.
  if (e.code() == std::errc::resource_unavailable_try_again) {
    return concat(
        "[threads] another thread must be startable, but: ", e.code().message(),
        "; allow more processes and memory (ulimit -u, ulimit -v, "
        "the limits of the container), or use fewer workers and "
        "threads");
  }
  return concat("[system] a call of the system failed: ", e.what());
}

}  // namespace

std::string message_of(const std::exception& e) {
  if (const auto* files = dynamic_cast<const fs::filesystem_error*>(&e)) {
    return of_files(*files);
  }
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  const bool stream =
      dynamic_cast<const std::ios_base::failure*>(&e) != nullptr;
  return system != nullptr && !stream ? of_system(*system) : e.what();
}

}  // namespace sluice
