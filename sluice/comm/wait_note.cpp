#include "sluice/comm/wait_note.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sluice/comm/communicator.h"

namespace sluice {
namespace {

// A static of the file, not of a function: a signal handler must not be the
// first to ask for it.
WaitNote note;

void on_sigterm(int number) {
  const char* text = note.text();
  if (text[0] != '\0') {
    // Nothing to do about a failed write on the way out.
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, text, std::strlen(text));
  }
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void WaitNote::set(const std::string& what) {
  const std::lock_guard lock(mutex_);
  const int next = 1 - current_.load();
  const std::size_t size = std::min(what.size(), sizeof(text_[0]) - 1);
  std::memcpy(text_[next], what.data(), size);
  text_[next][size] = '\0';
  if (size < what.size()) text_[next][size - 1] = '\n';
  current_.store(next);
}

WaitNote& wait_note() { return note; }

void report_waits_on_sigterm() {
  struct sigaction there = {};
  sigaction(SIGTERM, nullptr, &there);
  if (there.sa_handler != SIG_DFL) return;
  note.want();
  signal(SIGTERM, on_sigterm);
}

}  // namespace sluice
