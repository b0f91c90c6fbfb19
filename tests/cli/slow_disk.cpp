// A disk that takes its time: loaded before the C library (LD_PRELOAD), it
// makes each fsync() of a checkpoint's files last SLOW_DISK_SECONDS.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern "C" int fsync(int fd) {
  using Fsync = int (*)(int);
  static const auto next = reinterpret_cast<Fsync>(dlsym(RTLD_NEXT, "fsync"));
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char path[4096] = {};
  const ssize_t size = readlink(link.c_str(), path, sizeof(path) - 1);
  const char* seconds = std::getenv("SLOW_DISK_SECONDS");
  if (size > 0 && seconds != nullptr && std::strstr(path, "rank-1.ckpt")) {
    usleep(static_cast<useconds_t>(1e6 * std::atof(seconds)));
  }
  return next(fd);
}
