#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

// This program, run again with other arguments.

namespace sluice {

// Starts it, with its outputs at these file descriptors and nothing to read, in
// a process group of its own, so that a Ctrl-C reaches the parent alone.
// Returns its process id; throws std::runtime_error if it cannot be started.
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

 private:
  sigset_t held_;
  sigset_t before_;
};

}  // namespace sluice
