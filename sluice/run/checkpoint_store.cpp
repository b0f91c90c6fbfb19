#include "sluice/run/checkpoint_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sluice/core/ensure.h"
#include "sluice/run/atomic_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

std::string name_of(std::uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof(text), "step-%08llu",
                static_cast<unsigned long long>(step));
  return text;
}

void sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  ensure(ok, "[checkpoint] '", path,
         "' did not reach the disk: ", std::strerror(error));
}

// Exchanges the two if `to` is there, so that neither is missing at any time.
void move_folder(const std::string& from, const std::string& to) {
  const bool there = fs::exists(to);
  const int flags = there ? 2 /* RENAME_EXCHANGE */ : 0;
  ensure(renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                   static_cast<unsigned>(flags)) == 0,
         "[checkpoint] '", from, "' could not be renamed to '", to,
         "': ", std::strerror(errno));
  std::error_code ignored;
  if (there) fs::remove_all(from, ignored);
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string CheckpointStore::partial(std::uint64_t step) const {
  return folder() + "/." + name_of(step) + ".partial";
}

void CheckpointStore::begin(std::uint64_t step) const {
  std::error_code error;
  fs::remove_all(partial(step), error);
  fs::create_directories(partial(step), error);
  ensure(!error, "[checkpoint] the folder '", partial(step),
         "' could not be made: ", error.message());
}

std::string CheckpointStore::publish(std::uint64_t step) const {
  const std::string path = folder() + "/" + name_of(step);
  sync_folder(partial(step));
  move_folder(partial(step), path);
  sync_folder(folder());
  write_text(folder() + "/latest", name_of(step) + "\n");

  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder())) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix) && name != name_of(step)) {
      others.push_back(entry.path());
    }
  }
  std::sort(others.begin(), others.end());
  std::error_code ignored;
  while (others.size() >= std::max<std::size_t>(keep_, 1)) {
    fs::remove_all(others.front(), ignored);
    others.erase(others.begin());
  }
  return path;
}

void CheckpointStore::discard(std::uint64_t step) const {
  std::error_code ignored;
  fs::remove_all(partial(step), ignored);
}

std::string CheckpointStore::find(const std::string& path) {
  if (fs::exists(path + "/model.ckpt")) return path;
  const std::string folder = path + "/checkpoints";
  const std::string name = read_line(folder + "/latest");
  if (!name.starts_with(kPrefix)) return {};
  return folder + "/" + name;
}

}  // namespace sluice
