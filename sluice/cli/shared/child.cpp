#include "sluice/cli/shared/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "sluice/core/ensure.h"

namespace sluice {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

File make_file() {
  File file(std::tmpfile());
  ensure(file != nullptr,
         "[child] a temporary file must be writable: ", std::strerror(errno),
         "; TMPDIR may name another folder");
  return file;
}

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char part[4096];
  for (std::size_t n = 0; (n = std::fread(part, 1, sizeof(part), file)) > 0;) {
    text.append(part, n);
  }
  return text;
}

// Between fork() and exec(), where only what is safe in a signal handler may be
// called. Returns what went wrong.
int become(char* const* argv, pid_t parent, const SpawnOptions& options) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, options.orphan_signal);
  if (getppid() != parent) _exit(1);  // it was too quick
  signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (options.out >= 0) dup2(options.out, STDOUT_FILENO);
  if (options.err >= 0) dup2(options.err, STDERR_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  sigprocmask(SIG_SETMASK, &options.mask, nullptr);
  execvp(argv[0], argv);
  return errno;
}

}  // namespace

int spawn(pid_t& pid, std::vector<std::string> words,
          const SpawnOptions& options) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int report[2];  // closed by a successful exec()
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  const pid_t parent = getpid();
  pid = fork();
  if (pid == 0) {
    const int error = become(argv.data(), parent, options);
    _exit(write(report[1], &error, sizeof(error)) > 0 ? 127 : 126);
  }
  int error = pid < 0 ? errno : 0;
  close(report[1]);
  while (pid > 0 && read(report[0], &error, sizeof(error)) < 0 &&
         errno == EINTR) {
  }
  close(report[0]);
  if (pid > 0 && error != 0) waitpid(pid, nullptr, 0);
  return error;
}

pid_t start_self(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<std::string> words = {
      std::filesystem::read_symlink(kSelf).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  SpawnOptions options;
  sigemptyset(&options.mask);
  options.out = out;
  options.err = err;
  pid_t pid = 0;
  const int error = spawn(pid, words, options);
  ensure(error == 0, "[child] '", words[0], "' must be startable, got '",
         std::strerror(error), "'");
  return pid;
}

Finished run_self(const std::vector<std::string>& arguments) {
  const File out = make_file();
  const File err = make_file();
  const pid_t pid = start_self(arguments, fileno(out.get()), fileno(err.get()));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, read_all(out.get()),
          read_all(err.get())};
}

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held_, signal);
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool HeldSignals::came() const {
  constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 20'000'000};
  return sigtimedwait(&held_, nullptr, &kPatience) > 0;
}

}  // namespace sluice
