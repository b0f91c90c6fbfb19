#include "sluice/cli/shared/mpirun.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "sluice/cli/shared/child.h"
#include "sluice/core/ensure.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// Tell ranks where their errors go, and a mark that they are told: "host:file".
constexpr const char* kErrors = "SLUICE_ERRORS";
constexpr const char* kMarks = "SLUICE_MARKS";
// How long mpirun may take to notice that all ranks have ended.
constexpr auto kGrace = std::chrono::seconds(1);

// What the ranks write to standard error, past mpirun, which forwards nothing
// once a rank has failed and drops it all when it is hurried. Straight to a
// terminal; else through a pipe, because a file opened twice has two ends.
class Errors {
 public:
  Errors() {
    if (isatty(STDERR_FILENO) == 0 && pipe2(ends_, O_CLOEXEC) == 0) {
      fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    }
    if (pipe2(marks_, O_CLOEXEC) != 0) return;
    setenv(kErrors, named(ends_[1] < 0 ? STDERR_FILENO : ends_[1]).c_str(), 1);
    setenv(kMarks, named(marks_[1]).c_str(), 1);
  }
  ~Errors() {
    for (const int end : {ends_[0], ends_[1], marks_[0], marks_[1]}) close(end);
  }
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;

  void forward() {
    char text[4096];
    ssize_t n = 0;
    while (ends_[0] >= 0 && (n = read(ends_[0], text, sizeof(text))) > 0) {
      std::fwrite(text, 1, static_cast<std::size_t>(n), stderr);
    }
  }

  // How many ranks have told why they failed.
  std::size_t told() const {
    int bytes = 0;
    ioctl(marks_[0], FIONREAD, &bytes);
    return static_cast<std::size_t>(bytes);
  }

 private:
  static std::string named(int file) {
    return concat(host_name(), ":/proc/", getpid(), "/fd/", file);
  }

  int ends_[2] = {-1, -1};
  int marks_[2] = {-1, -1};
};

// What a variable names, to write to; -1: nothing on this machine.
int open_named(const char* variable) {
  const char* value = std::getenv(variable);
  const std::string text = value == nullptr ? "" : value;
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (text.substr(0, colon) != host_name() || colon == text.size()) return -1;
  return open(text.c_str() + colon + 1, O_WRONLY | O_CLOEXEC);
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(word);
  }
  ensure(!words.empty(),
         "[launch] /proc/self/cmdline must be readable to start ranks; run "
         "mpirun yourself, or use --engine threads");
  words[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

std::vector<std::string> command_line(std::size_t ranks, double deadline) {
  // mpirun waits this long before it sends the survivors of a rank a SIGTERM
  // (its default is 1 s, too early for them to find out who is missing).
  const auto patience = static_cast<long>(std::ceil(deadline)) + 5;
  std::vector<std::string> words = {"mpirun",
                                    "--quiet",
                                    "-n",
                                    std::to_string(ranks),
                                    "--oversubscribe",
                                    "--bind-to",
                                    "none",
                                    "--mca",
                                    "odls_base_sigkill_timeout",
                                    std::to_string(patience)};
  if (ranks > std::thread::hardware_concurrency()) {
    words.insert(words.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  for (std::string& word : own_arguments()) words.push_back(std::move(word));
  return words;
}

pid_t start(const std::vector<std::string>& words, const sigset_t& mask) {
  pid_t pid = 0;
  const int error = spawn(pid, words, mask);
  ensure(error == 0,
         "[launch] mpirun (Open MPI) must be in PATH to start ranks, got '",
         std::strerror(error), "'; --engine threads works without it");
  return pid;
}

bool is_running(pid_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         line[name_end + 2] != 'Z';
}

// Of mpirun: on this machine the ranks, else what started them on others.
struct Children {
  bool any = false;  // even if they have ended
  std::vector<pid_t> running;
};

Children children_of(pid_t parent) {
  Children children;
  std::error_code ended;
  for (const auto& task : std::filesystem::directory_iterator(
           concat("/proc/", parent, "/task"), ended)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) {
      children.any = true;
      if (is_running(child)) children.running.push_back(child);
    }
  }
  return children;
}

// Once a rank has failed, mpirun sleeps twice for all of its patience, even if
// every rank is gone by then; two signals in a row make it leave.
void hurry(pid_t mpirun) {
  kill(mpirun, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  kill(mpirun, SIGTERM);
}

// It leaves these behind if it has been hurried.
void remove_files_of(pid_t mpirun) {
  std::error_code none;
  std::filesystem::remove_all(std::filesystem::temp_directory_path(none) /
                                  concat("ompi.", host_name(), ".", geteuid()) /
                                  concat("pid.", mpirun),
                              none);
}

// Returns the status of wait().
int see_through(pid_t mpirun, const HeldSignals& signals, Errors& errors) {
  int status = 0;
  bool started = false;
  auto last_seen = Clock::now();
  while (waitpid(mpirun, &status, WNOHANG) == 0) {
    const Children ranks = children_of(mpirun);
    started = started || ranks.any;
    if (!started || !ranks.running.empty()) last_seen = Clock::now();
    const bool stop = signals.came();
    errors.forward();
    for (const pid_t rank : ranks.running) {
      if (stop) kill(rank, SIGTERM);
    }
    if (Clock::now() - last_seen > kGrace || (stop && ranks.running.empty())) {
      hurry(mpirun);
      last_seen = Clock::now();
    }
  }
  errors.forward();
  remove_files_of(mpirun);
  return status;
}

}  // namespace

bool is_under_mpirun() { return std::getenv(kErrors) != nullptr; }

void share_standard_error() {
  const int file = open_named(kErrors);
  if (file < 0) return;
  dup2(file, STDERR_FILENO);
  close(file);
}

void mark_as_told() {
  const int file = open_named(kMarks);
  // If it does not arrive, the launcher says more than it needs to.
  if (file >= 0 && write(file, "!", 1) == 1) close(file);
}

void run_under_mpirun(std::size_t ranks, double deadline) {
  Errors errors;
  if (geteuid() == 0) {
    // mpirun refuses to work for root unless told twice.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  const std::vector<std::string> words = command_line(ranks, deadline);
  const HeldSignals signals;
  const pid_t mpirun = start(words, signals.before());
  const int status = see_through(mpirun, signals, errors);
  ensure(WIFEXITED(status) && WEXITSTATUS(status) == 0, "[launch] all of ",
         ranks, " ranks must end well",
         errors.told() >= ranks
             ? ""
             : "; a rank that has not said why it failed was killed, perhaps "
               "for memory");
}

}  // namespace sluice
