#include "sluice/cli/shared/rank_outputs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sluice/core/error.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

// "host:file" each.
constexpr const char* kOutput = kRankOutputVariables[0];
constexpr const char* kErrors = kRankOutputVariables[1];
constexpr const char* kMarks = kRankOutputVariables[2];
constexpr char kBegun = '+';
constexpr char kTold = '!';
constexpr char kDone = '.';

std::string named(int file) {
  return concat(host_name(), ":/proc/", getpid(), "/fd/", file);
}

bool opens_twice(int fd) {
  struct stat about = {};
  return isatty(fd) != 0 || (fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode));
}

// What a variable names, to write to; -1: nothing on this machine. A pipe that
// nobody reads any more would make open() wait for ever.
int open_named(const char* variable) {
  const char* value = std::getenv(variable);
  const std::string text = value == nullptr ? "" : value;
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (text.substr(0, colon) != host_name() || colon == text.size()) return -1;
  const char* path = text.c_str() + colon + 1;
  int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENXIO) file = open("/dev/null", O_WRONLY);
  if (file >= 0) fcntl(file, F_SETFL, 0);
  return file;
}

// Opened ahead: a process that crashes can do little more than write to it.
int crash_mark = -1;

void put(int file, const char* text) {
  // Nothing to do about a failed write on the way out.
  [[maybe_unused]] const ssize_t n = write(file, text, std::strlen(text));
}

void on_crash(int number) {
  [[maybe_unused]] const ssize_t n = write(crash_mark, &kTold, 1);
  put(STDERR_FILENO, "[launch] a rank has crashed: ");
  put(STDERR_FILENO, sigdescr_np(number));
  put(STDERR_FILENO, "\n");
  raise(number);
}

void put_mark(char mark) {
  const int file = open_named(kMarks);
  if (file < 0) return;
  // If it does not arrive, the launcher says more than it needs to.
  [[maybe_unused]] const ssize_t n = write(file, &mark, 1);
  close(file);
}

void become_named(int fd, const char* variable) {
  const int file = open_named(variable);
  if (file < 0) return;
  dup2(file, fd);
  close(file);
}

}  // namespace

RankOutputs::RankOutputs() {
  const char* names[] = {kOutput, kErrors};
  for (int i = 0; i < 2; ++i) {
    Outlet& outlet = outlets_[i];
    outlet.to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    int file = outlet.to;
    if (!opens_twice(file) && pipe2(outlet.pipe, O_CLOEXEC) == 0) {
      fcntl(outlet.pipe[0], F_SETFL, O_NONBLOCK);
      file = outlet.pipe[1];
    }
    setenv(names[i], named(file).c_str(), 1);
  }
  if (pipe2(marks_, O_CLOEXEC) == 0) {
    fcntl(marks_[0], F_SETFL, O_NONBLOCK);
    setenv(kMarks, named(marks_[1]).c_str(), 1);
  }
}

RankOutputs::~RankOutputs() {
  for (const Outlet& outlet : outlets_) {
    close(outlet.pipe[0]);
    close(outlet.pipe[1]);
  }
  close(marks_[0]);
  close(marks_[1]);
}

void RankOutputs::forward() {
  for (const Outlet& outlet : outlets_) forward(outlet);
}

void RankOutputs::forward(const Outlet& outlet) {
  char text[4096];
  ssize_t n = 0;
  while (outlet.pipe[0] >= 0 &&
         (n = read(outlet.pipe[0], text, sizeof(text))) > 0) {
    for (ssize_t at = 0; at < n;) {
      const ssize_t m =
          write(outlet.to, text + at, static_cast<std::size_t>(n - at));
      if (m > 0) at += m;
      if (m > 0 || errno == EINTR) continue;
      if (outlet.to == STDOUT_FILENO && problem_.empty()) {
        problem_ = std::strerror(errno);
        std::fprintf(stderr,
                     "[launch] standard output could not be written: %s; the "
                     "ranks go on\n",
                     problem_.c_str());
      }
      break;
    }
  }
}

RankOutputs::Marks RankOutputs::marks() {
  char text[256];
  ssize_t n = 0;
  while (marks_[0] >= 0 && (n = read(marks_[0], text, sizeof(text))) > 0) {
    seen_.begun += static_cast<std::size_t>(std::count(text, text + n, kBegun));
    seen_.told += static_cast<std::size_t>(std::count(text, text + n, kTold));
    seen_.done += static_cast<std::size_t>(std::count(text, text + n, kDone));
  }
  return seen_;
}

bool has_rank_outputs() { return std::getenv(kErrors) != nullptr; }

void share_outputs() {
  become_named(STDOUT_FILENO, kOutput);
  become_named(STDERR_FILENO, kErrors);
}

void mark_as_begun() { put_mark(kBegun); }

void mark_as_told() { put_mark(kTold); }

void mark_as_done() { put_mark(kDone); }

void mark_crashes() {
  crash_mark = open_named(kMarks);
  struct sigaction action = {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(number, &action, nullptr);
  }
}

}  // namespace sluice
