#include "sluice/core/atomic_file.h"

#include <fcntl.h>
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
  fd_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(fd_ >= 0);
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

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace sluice
