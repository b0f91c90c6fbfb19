#include "sluice/cli/shared/parent_watch.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>

namespace sluice {
namespace {

// Asked for rather than signalled: the kernel signals when the thread has ended
// that started us, and mpirun has many.
constexpr std::chrono::milliseconds kLook(250);

}  // namespace

ParentWatch::ParentWatch(std::chrono::duration<double> patience)
    : patience_(patience), parent_(getppid()), thread_([this] { run(); }) {}

ParentWatch::~ParentWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ParentWatch::pause(std::chrono::duration<double> duration) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, duration, [&] { return ending_; });
}

void ParentWatch::run() {
  while (getppid() == parent_) {
    if (pause(kLook)) return;
  }
  std::fprintf(stderr,
               "[launch] process %d was left alone: the one that started it "
               "(%d) has ended; it saves what it can and ends\n",
               static_cast<int>(getpid()), parent_);
  alone_ = true;
  kill(getpid(), SIGTERM);
  if (pause(patience_)) return;
  std::fprintf(stderr, "[launch] process %d could not save itself in %g s\n",
               static_cast<int>(getpid()), patience_.count());
  _exit(1);
}

}  // namespace sluice
