#include "sluice/core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"

namespace sluice {
namespace {

std::string why_not(mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "it is a directory";
  if (S_ISFIFO(mode))
    return "it is a pipe; save what comes out of it to a file";
  if (S_ISSOCK(mode)) return "it is a socket";
  return "it is a device";
}

class Opened {
 public:
  // Not blocking: a pipe opens at once, and is then seen to be one.
  explicit Opened(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_.get() < 0 || fstat(fd_.get(), &status_) != 0) {
      problem_ = std::strerror(errno);
    } else {
      problem_ = why_not(status_.st_mode);
    }
  }

  const std::string& problem() const { return problem_; }
  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  ssize_t read(char* to, std::size_t most) const {
    ssize_t n = 0;
    do {
      n = ::read(fd_.get(), to, most);
    } while (n < 0 && errno == EINTR);
    return n;
  }

 private:
  Fd fd_;
  struct stat status_ = {};
  std::string problem_;
};

}  // namespace

std::string why_no_file(const std::string& path) {
  return Opened(path).problem();
}

std::string read_text_file(std::string_view owner, const std::string& path,
                           std::size_t most) {
  const Opened file(path);
  ensure(file.problem().empty(), "[", owner, "] '", path,
         "' must be a file that can be read: ", file.problem());
  const auto check = [&](std::size_t size) {
    ensure(size <= most, "[", owner, "] '", path, "' must have at most ", most,
           " bytes, has ", size, "; it is something else");
  };
  check(file.size());
  std::string text;
  text.reserve(file.size());
  // Files of /proc have no size, and others may grow.
  char chunk[1 << 16];
  while (const ssize_t n = file.read(chunk, sizeof(chunk))) {
    ensure(n > 0, "[", owner, "] '", path,
           "' must be a file that can be read: ", std::strerror(errno));
    text.append(chunk, static_cast<std::size_t>(n));
    check(text.size());
  }
  return text;
}

}  // namespace sluice
