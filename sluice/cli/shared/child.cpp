#include "sluice/cli/shared/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "sluice/core/ensure.h"

extern char** environ;

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

}  // namespace

int spawn(pid_t& pid, std::vector<std::string> words, const sigset_t& mask,
          int out, int err) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  if (out >= 0) posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  if (err >= 0) posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  const int error =
      posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

pid_t start_self(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<std::string> words = {
      std::filesystem::read_symlink(kSelf).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  sigset_t none;
  sigemptyset(&none);
  pid_t pid = 0;
  const int error = spawn(pid, words, none, out, err);
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
