#include "sluice/run/line_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostWaiting = std::size_t{1} << 18;
// At the end, for a reader that takes nothing.
constexpr auto kLastWait = std::chrono::seconds(5);
constexpr int kPollMs = 50;

// A pipe is opened anew, so that only writes of ours do not wait. Files and
// terminals have a place or a state that must stay shared.
int reopen(int fd) {
  struct stat about = {};
  if (fstat(fd, &about) != 0 || !S_ISFIFO(about.st_mode)) return -1;
  return open(concat("/proc/self/fd/", fd).c_str(),
              O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

LineWriter::LineWriter(int fd) : fd_(reopen(fd)), own_(fd_ >= 0) {
  if (!own_) fd_ = fd;
  thread_ = std::thread([this] { run(); });
}

void LineWriter::write(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return;
  if (waiting_.size() + text.size() > kMostWaiting) {
    left_out_ += text.size();
    return;
  }
  if (left_out_ > 0) {
    waiting_ += concat("[", std::exchange(left_out_, 0),
                       " bytes that nobody read are left out]\n");
  }
  waiting_ += text;
  changed_.notify_all();
}

void LineWriter::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (std::exchange(own_, false)) close(fd_);
}

std::string LineWriter::problem() const {
  const std::lock_guard lock(mutex_);
  return error_ == 0 ? "" : std::strerror(error_);
}

bool LineWriter::reader_is_gone() const {
  const std::lock_guard lock(mutex_);
  return error_ == EPIPE;
}

void LineWriter::run() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (true) {
    std::string text;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      text.swap(waiting_);
    }
    for (std::string_view rest = text; !rest.empty();) {
      if (!write_some(rest)) return;
    }
  }
}

bool LineWriter::write_some(std::string_view& text) {
  for (auto last = Clock::now();;) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
      return true;
    }
    const int error = n == 0 ? EAGAIN : errno;
    {
      const std::lock_guard lock(mutex_);
      if (error != EAGAIN && error != EINTR) {
        error_ = error;
        waiting_.clear();
        return false;
      }
      if (!ending_) last = Clock::now();
    }
    if (Clock::now() - last > kLastWait) return false;
    pollfd ready = {fd_, POLLOUT, 0};
    poll(&ready, 1, kPollMs);
  }
}

}  // namespace sluice
