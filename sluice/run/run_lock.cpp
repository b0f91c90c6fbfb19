#include "sluice/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>
#include <utility>

#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Clock = RunLock::Clock;

constexpr const char* kFile = "run.lock";
constexpr std::string_view kFirstLine = "sluice run lock 1\nbeat ";
constexpr int kDigits = 20;

// What a lock says.
struct LockText {
  std::uint64_t beat = 0;
  std::string token;
  std::vector<ProcessId> ranks;
};

std::string to_text(const LockText& lock) {
  char beat[kDigits + 1];
  std::snprintf(beat, sizeof(beat), "%020llu",
                static_cast<unsigned long long>(lock.beat));
  std::string text = concat(kFirstLine, beat, "\ntoken ", lock.token, "\n");
  for (const ProcessId& p : lock.ranks) {
    text += concat("rank ", p.host, " ", p.boot, " ", p.space, " ", p.pid, " ",
                   p.start, "\n");
  }
  return text;
}

// Tokens become parts of file names.
bool is_token(const std::string& word) {
  constexpr std::size_t kMost = 64;
  return !word.empty() && word.size() <= kMost &&
         word.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") ==
             std::string::npos;
}

// Names are printed: nothing that a terminal would obey.
bool is_printable(const std::string& word) {
  constexpr std::size_t kMost = 256;
  return word.size() <= kMost &&
         std::ranges::all_of(word, [](char c) { return c > ' ' && c <= '~'; });
}

// What is damaged or of another version has no token.
LockText lock_from_text(const std::string& text) {
  LockText lock;
  if (!text.starts_with(kFirstLine)) return lock;
  std::istringstream in(text.substr(kFirstLine.size()));
  in >> lock.beat;
  for (std::string word; in >> word;) {
    ProcessId p;
    if (word == "token") in >> lock.token;
    if (word != "rank") continue;
    in >> p.host >> p.boot >> p.space >> p.pid >> p.start;
    if (in && is_printable(p.host)) lock.ranks.push_back(p);
  }
  if (!is_token(lock.token)) lock.token.clear();
  return lock;
}

// Opens a lock that exists; returns -1, with errno, if there is no file of that
// name. Anyone may have put something else there in a shared folder: follows no
// symbolic link (ELOOP) and never waits for the writer of a pipe (EINVAL).
int open_lock(const std::string& path, int flags = O_RDONLY) {
  const int fd =
      open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status = {};
  if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

// What is longer is no lock, and reads as one that is damaged.
constexpr std::size_t kMostLock = std::size_t{1} << 20;

std::string read_lock(int fd) {
  std::string text;
  char part[4096];
  ssize_t n = 0;
  while (text.size() < kMostLock &&
         (n = pread(fd, part, sizeof(part), static_cast<off_t>(text.size()))) >
             0) {
    text.append(part, static_cast<std::size_t>(n));
  }
  return text;
}

bool write_whole(int fd, const std::string& text) {
  return write(fd, text.data(), text.size()) ==
             static_cast<ssize_t>(text.size()) &&
         fsync(fd) == 0;
}

// True if it is there now; false if another one is. Throws for the rest.
bool make_lock(const std::string& path, const std::string& text,
               const std::string& token) {
  const std::string draft = concat(path, ".", token);
  {
    const Fd file(
        open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    ensure(file.get() >= 0 && write_whole(file.get(), text), "[lock] '", draft,
           "' could not be written: ", std::strerror(errno));
  }
  int error = link(draft.c_str(), path.c_str()) == 0 ? 0 : errno;
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
    const Fd file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    error = file.get() >= 0 && write_whole(file.get(), text) ? 0 : errno;
  }
  unlink(draft.c_str());
  ensure(error == 0 || error == EEXIST, "[lock] '", path,
         "' could not be made: ", std::strerror(error));
  return error == 0;
}

// Among those that found the same dead owner one may replace its lock: the one
// that makes the claim, which names that owner, and then still finds it.
bool replace_lock(const std::string& path, const std::string& text,
                  const std::string& token, const std::string& old) {
  const std::string claim = concat(path, ".claim-", lock_from_text(old).token);
  if (!make_lock(claim, text, token)) return false;
  const Fd file(open_lock(path));
  const bool same =
      file.get() >= 0 &&
      lock_from_text(read_lock(file.get())).token == lock_from_text(old).token;
  const bool done = same && std::rename(claim.c_str(), path.c_str()) == 0;
  if (!done) unlink(claim.c_str());
  return done;
}

std::string names_of(const LockText& lock) {
  if (lock.ranks.empty()) return "a process that it does not name";
  const ProcessId& first = lock.ranks.front();
  std::string text = concat("process ", first.pid, " on host ", first.host);
  if (lock.ranks.size() > 1) {
    text += concat(" and ", lock.ranks.size() - 1, " more");
  }
  return text;
}

// Whether ranks of this very process hold it, which its number cannot tell.
bool held_here(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return true;
  flock(fd, LOCK_UN);
  return false;
}

enum class Owner : std::uint8_t { kAlive, kDead, kUnknown };

Owner judge(const LockText& lock, int fd, const ProcessId& self) {
  Owner verdict = lock.ranks.empty() ? Owner::kUnknown : Owner::kDead;
  for (const ProcessId& p : lock.ranks) {
    if (!self.sees(p)) {
      verdict = Owner::kUnknown;
    } else if (p == self ? held_here(fd) : is_alive(p)) {
      return Owner::kAlive;
    }
  }
  return verdict;
}

// One attempt of a process to take a lock that is there or not.
class Taking {
 public:
  Taking(std::string path, LockText mine, const RunLock::Options& options)
      : path_(std::move(path)), mine_(std::move(mine)), options_(options) {}

  // Throws std::runtime_error if it has an owner that lives.
  void run() {
    while (!make_lock(path_, to_text(mine_), mine_.token)) {
      const Fd file(open_lock(path_));
      if (file.get() < 0) {
        wait_until_gone(errno);
        continue;
      }
      const std::string text = read_lock(file.get());
      const LockText lock = lock_from_text(text);
      const Owner owner =
          judge(lock, file.get(), own_process_id(options_.host));
      if (owner == Owner::kAlive) refuse(lock, "runs");
      if (owner == Owner::kUnknown && !stood_still(text, lock)) continue;
      if (replace_lock(path_, to_text(mine_), mine_.token, text)) return;
      check_claim(lock);
    }
  }

 private:
  [[noreturn]] void refuse(const LockText& lock, const char* why) const {
    throw std::runtime_error(
        concat("[train] --out must be a folder that no other job uses, but '",
               fs::path(path_).parent_path().string(), "' is locked by ",
               names_of(lock), ", which ", why,
               "; wait for it, stop it, or give another --out"));
  }

  // A lock that another job has just given back is gone by the next attempt.
  // Whatever else cannot be opened stays as it is.
  void wait_until_gone(int error) {
    constexpr int kMost = 100;
    if (error == ENOENT && ++vanished_ < kMost) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    const char* why = error == ELOOP ? "it is a symbolic link"
                      : error == EINVAL || error == ENXIO
                          ? "it is a pipe, a directory or a device"
                          : std::strerror(error);
    throw std::runtime_error(concat(
        "[train] '", path_, "', the lock of the run, must be a file ",
        "that can be read, but: ", why, "; remove it if no job uses '",
        fs::path(path_).parent_path().string(), "', or give another --out"));
  }

  // Of an owner that this machine cannot see: whether it has been silent long
  // enough. A counter that moves tells that it lives.
  bool stood_still(const std::string& text, const LockText& lock) {
    if (seen_.empty()) {
      seen_ = text;
      since_ = Clock::now();
      if (options_.say) {
        options_.say(concat(
            "[train] '", path_, "' is held by ", names_of(lock),
            ", which cannot be seen from here; it is taken over if it has not "
            "advanced in ",
            std::chrono::duration<double>(options_.stale).count(), " s"));
      }
    }
    if (text != seen_) refuse(lock, "has just shown that it is alive");
    if (Clock::now() - since_ >= options_.stale) return true;
    std::this_thread::sleep_for(options_.beat / 4);
    return false;
  }

  // Whoever makes a claim is done with it in a moment, unless it dies there.
  void check_claim(const LockText& lock) {
    if (++refusals_ < 20) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return;
    }
    const std::string claim = concat(path_, ".claim-", lock.token);
    throw std::runtime_error(
        concat("[train] '", claim, "' was left by a job that died while it ",
               "took the folder over; remove it if no job uses '",
               fs::path(path_).parent_path().string(), "'"));
  }

  std::string path_;
  LockText mine_;
  const RunLock::Options& options_;
  std::string seen_;
  Clock::time_point since_;
  int refusals_ = 0;
  int vanished_ = 0;
};

std::string make_token() {
  std::random_device random;
  char text[40];
  std::snprintf(text, sizeof(text), "%08x%08x-%d", random(), random(),
                static_cast<int>(getpid()));
  return text;
}

// The processes of all ranks, each once; on rank 0.
std::vector<ProcessId> gather_processes(Communicator& comm,
                                        const std::string& host) {
  const LockText mine = {0, "-", {own_process_id(host)}};
  std::vector<ProcessId> all;
  for (const Bytes& bytes :
       gather_at_first(comm, "lock", 0, to_bytes(to_text(mine)))) {
    for (const ProcessId& p : lock_from_text(to_string(bytes)).ranks) {
      if (std::ranges::find(all, p) == all.end()) all.push_back(p);
    }
  }
  return all;
}

}  // namespace

std::unique_ptr<RunLock> RunLock::take(Communicator& comm,
                                       const std::string& folder,
                                       const Options& options) {
  const std::string path = folder + "/" + kFile;
  LockText lock;
  lock.ranks = gather_processes(comm, options.host);
  std::string problem;
  if (comm.rank() == 0) {
    lock.token = make_token();
    problem = problem_of([&] {
      comm.work_alone(concat("taking '", path, "'"), 10 * options.stale,
                      [&] { Taking(path, lock, options).run(); });
    });
  }
  agree(comm, "lock", 0, problem);
  const std::string token = broadcast_first(comm, "lock", 0, lock.token);
  return std::unique_ptr<RunLock>(new RunLock(path, token, options));
}

RunLock::RunLock(std::string path, std::string token, const Options& options)
    : path_(std::move(path)), token_(std::move(token)), options_(options) {
  Fd file(open_lock(path_));
  if (file.get() >= 0) {
    flock(file.get(), LOCK_SH | LOCK_NB);
    held_ = file.release();
  }
  thread_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (held_ >= 0) close(held_);
  // The last rank to leave a machine that has all of them takes it away.
  const Fd file(open_lock(path_));
  if (file.get() < 0 || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  const LockText lock = lock_from_text(read_lock(file.get()));
  const ProcessId self = own_process_id(options_.host);
  const auto seen = [&](const ProcessId& p) { return self.sees(p); };
  if (lock.token == token_ && std::ranges::all_of(lock.ranks, seen)) {
    unlink(path_.c_str());
  }
}

void RunLock::release(Communicator& comm, std::uint64_t step) const {
  comm.barrier(step);
  if (comm.rank() == 0 && look() == State::kOurs) unlink(path_.c_str());
}

// Opened anew each time: only that shows what other machines wrote, and a lock
// that was replaced. What is written to one that was replaced meanwhile goes
// nowhere.
void RunLock::beat() {
  std::uint64_t last = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.beat, [&] { return ending_; })) {
    lock.unlock();
    {
      const Fd file(open_lock(path_, O_RDWR));
      LockText text;
      if (file.get() >= 0) text = lock_from_text(read_lock(file.get()));
      if (text.token == token_ && std::exchange(last, text.beat) == text.beat) {
        char digits[kDigits + 1];
        std::snprintf(digits, sizeof(digits), "%020llu",
                      static_cast<unsigned long long>(++last));
        // The next beat tries again.
        [[maybe_unused]] const ssize_t n = pwrite(
            file.get(), digits, kDigits, static_cast<off_t>(kFirstLine.size()));
      }
    }
    lock.lock();
  }
}

RunLock::State RunLock::look() const {
  const Fd file(open_lock(path_));
  if (file.get() < 0) {
    if (errno == EINVAL || errno == ELOOP) return State::kTaken;
    return errno == ENOENT || errno == ENOTDIR ? State::kGone : State::kOurs;
  }
  const std::string text = read_lock(file.get());
  if (text.empty()) return State::kOurs;
  return lock_from_text(text).token == token_ ? State::kOurs : State::kTaken;
}

RunLock::State RunLock::look_together(Communicator& comm,
                                      std::uint64_t step) const {
  const State mine[] = {look()};
  Bytes worst(1);
  for (const Bytes& one :
       gather_at_first(comm, "lock", step, std::as_bytes(std::span(mine)))) {
    worst[0] = std::max(worst[0], one.at(0));
  }
  return static_cast<State>(broadcast_first(comm, "lock", step, worst).at(0));
}

void RunLock::require_ours() const {
  const State state = look();
  ensure(state == State::kOurs, describe(state));
}

std::string RunLock::describe(State state) const {
  const std::string folder = fs::path(path_).parent_path().string();
  if (state == State::kOurs) return {};
  if (state == State::kGone) {
    return concat("[train] '", folder,
                  "' must stay where it is while a run writes to it, but was "
                  "removed or renamed");
  }
  const Fd file(open_lock(path_));
  return concat("[train] '", folder, "' was taken over by ",
                names_of(lock_from_text(read_lock(file.get()))),
                " while this job gave no sign of life; it has stopped without "
                "writing: give another --out to one of them");
}

}  // namespace sluice
