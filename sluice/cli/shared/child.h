#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

// Programs that this one starts: itself with other arguments, or others.

namespace sluice {

struct SpawnOptions {
  sigset_t mask = {};  // of the program
  // What the program gets when the thread that started it ends, however that
  // comes about.
  int orphan_signal = SIGTERM;
  // Where its outputs go; -1 leaves one as it is.
  int out = -1;
  int err = -1;
};

// Starts words[0], looked for in PATH, with nothing to read, in a process group
// of its own, so that a Ctrl-C reaches the parent alone (and the terminal would
// not let it read). Returns 0, or what went wrong as errno.
int spawn(pid_t& pid, std::vector<std::string> words,
          const SpawnOptions& options);

// Starts this program, as spawn() does. Returns its process id; throws
// std::runtime_error if it cannot be started.
pid_t start_self(const std::vector<std::string>& arguments, int out, int err);

struct Finished {
  bool well = false;
  std::string out;
  std::string err;
};

// Runs it to its end.
Finished run_self(const std::vector<std::string>& arguments);

// While it lives, SIGINT, SIGTERM and SIGHUP are held back and asked for.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Whether one has come; waits for it a fiftieth of a second.
  bool came() const;
  // The mask that was there before, for children.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_;
  sigset_t before_;
};

}  // namespace sluice
