#include "sluice/core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

bool sync_folder(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = fsync(fd) == 0;
  close(fd);
  return ok;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), partial_(path + ".partial") {
  fd_ = open_anew(partial_);
  if (fd_ >= 0) return;
  const int error = errno;
  std::error_code ignored;
  const auto in_the_way = std::filesystem::symlink_status(partial_, ignored);
  ensure(!std::filesystem::exists(in_the_way), "[write] '", path_,
         "' could not be written: '", partial_,
         "' is in the way and cannot be removed: ", std::strerror(error));
  errno = error;
  check(false);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    check(n > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::commit() {
  check(fsync(fd_) == 0);
  check(close(std::exchange(fd_, -1)) == 0);
  check(std::rename(partial_.c_str(), path_.c_str()) == 0);
  partial_.clear();
  // The name is in place, but only a folder that reached the disk keeps it.
  ensure(sync_folder(path_), "[write] '", path_,
         "' is in place, but its folder did not reach the disk: ",
         std::strerror(errno));
}

void AtomicFile::check(bool ok) const {
  if (ok) return;
  const int error = errno;
  std::error_code ignored;
  ensure(false, "[write] '", path_,
         "' could not be written: ", std::strerror(error),
         std::filesystem::exists(path_, ignored)
             ? "; the file that was there is as it was"
             : "; there is no such file, as before");
}

int open_anew(const std::string& path) {
  // Another process may make the name again; it does not do so for ever.
  constexpr int kTries = 8;
  int fd = -1;
  for (int i = 0; i < kTries && fd < 0; ++i) {
    fd = open(path.c_str(),
              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return -1;
  }
  return fd;
}

int open_to_append(std::string_view owner, const std::string& path) {
  const int fd =
      open(path.c_str(),
           O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
           0666);
  const char* why = "it is a pipe or a device; remove it";
  if (fd < 0 && errno == ELOOP) {
    why = "it is a symbolic link; remove the link";
  } else if (fd < 0 && errno != ENXIO) {
    why = std::strerror(errno);
  }
  struct stat status = {};
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  if (fd >= 0) close(fd);
  throw std::runtime_error(
      concat("[", owner, "] '", path,
             "' must be a file that can be written, but: ", why));
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace sluice
