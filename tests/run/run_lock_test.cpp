// One owner of a run folder: by process on one machine, by its counter from
// another.

#include "sluice/run/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "files.h"
#include "ranks.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::message_of;
using testing::TempFolder;

using Locks = std::vector<std::unique_ptr<RunLock>>;

RunLock::Options on_host(const char* name, RunLock::Clock::duration beat,
                         RunLock::Clock::duration stale) {
  RunLock::Options options;
  options.host = name;
  options.beat = beat;
  options.stale = stale;
  return options;
}

// Who lives here needs nobody's counter.
const RunLock::Options kHere = on_host("here", hours(1), hours(1));

Locks take(const std::string& folder, const RunLock::Options& options,
           std::size_t size = 1) {
  auto ranks = make_thread_ranks(size);
  Locks locks(size);
  std::vector<std::string> errors(size);
  testing::run_ranks(ranks, [&](std::size_t r) {
    try {
      locks[r] = RunLock::take(*ranks[r], folder, options);
    } catch (const AgreedError& e) {
      errors[r] = e.what();
    }
  });
  if (!errors[0].empty()) throw std::runtime_error(errors[0]);
  return locks;
}

// Runs in a process of its own, which is killed afterwards.
void in_killed_process(const std::function<void()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

bool is_locked(const TempFolder& folder) {
  return std::filesystem::exists(folder / "run.lock");
}

TEST(RunLock, RefusesASecondOwner) {
  const TempFolder folder;
  Locks first = take(folder.path(), kHere);
  const std::string error =
      message_of<std::runtime_error>([&] { take(folder.path(), kHere); });
  EXPECT_CONTAINS(error, "must be a folder that no other job uses");
  EXPECT_CONTAINS(error, concat("process ", getpid(), " on host here"));
  first.clear();
  EXPECT_FALSE(is_locked(folder));
  EXPECT_EQ(take(folder.path(), kHere)[0]->look(), RunLock::State::kOurs);
}

TEST(RunLock, SeesDeathOnItsMachineAtOnce) {
  const TempFolder folder;
  in_killed_process([&] { take(folder.path(), kHere, 2)[0].release(); });
  ASSERT_TRUE(is_locked(folder));
  const Locks again = take(folder.path(), kHere);
  EXPECT_EQ(again[0]->look(), RunLock::State::kOurs);
}

// A number that was used again is another process.
TEST(RunLock, KnowsProcessesByTheirStart) {
  const TempFolder folder;
  const ProcessId self = own_process_id("here");
  EXPECT_TRUE(is_alive(self));
  ProcessId before = self;
  before.start -= 1;
  EXPECT_FALSE(is_alive(before));
  std::ofstream(folder / "run.lock")
      << "sluice run lock 1\nbeat 00000000000000000007\ntoken x\nrank here "
      << self.boot << " " << self.space << " " << self.pid << " "
      << before.start << "\n";
  EXPECT_EQ(take(folder.path(), kHere)[0]->look(), RunLock::State::kOurs);
}

TEST(RunLock, BelievesTheCounterOfAnotherMachine) {
  const TempFolder folder;
  const Locks far = take(folder.path(), on_host("far", milliseconds(5), {}));
  const std::string error = message_of<std::runtime_error>([&] {
    take(folder.path(), on_host("here", milliseconds(40), hours(1)));
  });
  EXPECT_CONTAINS(error, "on host far, which has just shown that it is alive");
  EXPECT_EQ(far[0]->look(), RunLock::State::kOurs);
}

TEST(RunLock, TakesOverFromAMachineThatStandsStill) {
  const TempFolder folder;
  in_killed_process(
      [&] { take(folder.path(), on_host("far", hours(1), {}))[0].release(); });
  RunLock::Options options =
      on_host("here", milliseconds(20), milliseconds(300));
  std::string said;
  options.say = [&](const std::string& line) { said = line; };
  const auto start = RunLock::Clock::now();
  const Locks locks = take(folder.path(), options);
  EXPECT_EQ(locks[0]->look(), RunLock::State::kOurs);
  EXPECT_GE(RunLock::Clock::now() - start, milliseconds(300));
  EXPECT_CONTAINS(said, "on host far, which cannot be seen from here");
}

TEST(RunLock, OwnerThatLostItKnows) {
  const TempFolder folder;
  const Locks paused = take(folder.path(), on_host("far", hours(1), {}));
  const Locks thief =
      take(folder.path(), on_host("here", milliseconds(20), milliseconds(100)));
  EXPECT_EQ(paused[0]->look(), RunLock::State::kTaken);
  const std::string error =
      message_of<std::runtime_error>([&] { paused[0]->require_ours(); });
  EXPECT_CONTAINS(error, "was taken over by process");
  EXPECT_CONTAINS(error, "stopped without writing");
  EXPECT_EQ(thief[0]->look(), RunLock::State::kOurs);
}

TEST(RunLock, HoldsForAsLongAsAnyRankLives) {
  const TempFolder folder;
  Locks locks = take(folder.path(), on_host("far", milliseconds(5), {}), 3);
  for (const std::size_t r : {0, 2}) {
    locks[r].reset();
    EXPECT_CONTAINS(message_of<std::runtime_error>([&] {
                      take(folder.path(), on_host("far", hours(1), hours(1)));
                    }),
                    "which runs");
    EXPECT_CONTAINS(message_of<std::runtime_error>([&] {
                      take(folder.path(),
                           on_host("here", milliseconds(40), hours(1)));
                    }),
                    "is alive");
  }
  locks[1].reset();
  EXPECT_FALSE(is_locked(folder));
}

TEST(RunLock, NoticesThatTheFolderHasGone) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "a");
  const Locks locks = take(folder / "a", kHere);
  std::filesystem::rename(folder / "a", folder / "b");
  EXPECT_EQ(locks[0]->look(), RunLock::State::kGone);
  EXPECT_CONTAINS(
      message_of<std::runtime_error>([&] { locks[0]->require_ours(); }),
      "was removed or renamed");
  std::filesystem::create_directory(folder / "a");
  EXPECT_EQ(locks[0]->look(), RunLock::State::kGone);
}

// Each was an endless loop, or a wait for the writer of a pipe.
TEST(RunLock, RefusesWhatIsNoLockFile) {
  const TempFolder folder;
  const std::string path = folder / "run.lock";
  std::ofstream(folder / "other") << "other";
  const std::pair<std::function<void()>, const char*> ways[] = {
      {[&] { std::filesystem::create_symlink("nowhere", path); },
       "it is a symbolic link"},
      {[&] { std::filesystem::create_symlink("other", path); },
       "it is a symbolic link"},
      {[&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
       "it is a pipe, a directory or a device"},
      {[&] { std::filesystem::create_directory(path); },
       "it is a pipe, a directory or a device"},
  };
  for (const auto& [put, why] : ways) {
    put();
    EXPECT_EQ(
        message_of<std::runtime_error>([&] { take(folder.path(), kHere); }),
        concat("[train] '", path,
               "', the lock of the run, must be a file that can be "
               "read, but: ",
               why, "; remove it if no job uses '", folder.path(),
               "', or give another --out"));
    std::filesystem::remove(path);
  }
}

TEST(RunLock, RefusesALockThatMayNotBeRead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  const TempFolder folder;
  const std::string path = folder / "run.lock";
  std::ofstream(path) << "of root";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  ASSERT_EQ(seteuid(65534), 0);
  const std::string error =
      message_of<std::runtime_error>([&] { take(folder.path(), kHere); });
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_CONTAINS(error, "must be a file that can be read, but: Permission");
}

TEST(RunLock, NoticesThatSomethingElseTookItsPlace) {
  const TempFolder folder;
  const Locks locks = take(folder.path(), kHere);
  const std::string path = folder / "run.lock";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(locks[0]->look(), RunLock::State::kTaken);
}

// The token of a dead owner is part of the name of a file.
TEST(RunLock, BelievesNoNamesThatLeadElsewhere) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_directory(folder / "run/run.lock.claim-a");
  const ProcessId self = own_process_id("here");
  std::ofstream(folder / "run/run.lock")
      << "sluice run lock 1\nbeat 00000000000000000007\ntoken a/../../x\n"
      << "rank \033[31m " << self.boot << " " << self.space << " 1 1\n"
      << "rank here " << self.boot << " " << self.space << " " << self.pid
      << " " << self.start - 1 << "\n";
  ASSERT_EQ(mkfifo((folder / "x").c_str(), 0600), 0);
  EXPECT_EQ(take(folder / "run", kHere)[0]->look(), RunLock::State::kOurs);
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "x"));
}

// All of them find the same dead owner, at the same time.
TEST(RunLock, OnlyOneTakesOver) {
  for (int round = 0; round < 5; ++round) {
    const TempFolder folder;
    in_killed_process([&] { take(folder.path(), kHere)[0].release(); });
    std::vector<pid_t> pids;
    for (int i = 0; i < 6; ++i) {
      pids.push_back(fork());
      if (pids.back() != 0) continue;
      try {
        const Locks mine = take(folder.path(), kHere);
        std::this_thread::sleep_for(milliseconds(500));
        _exit(mine[0]->look() == RunLock::State::kOurs ? 0 : 2);
      } catch (const std::runtime_error&) {
        _exit(1);
      }
    }
    int owners = 0;
    for (const pid_t pid : pids) {
      int status = 0;
      waitpid(pid, &status, 0);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
      owners += WEXITSTATUS(status) == 0 ? 1 : 0;
    }
    EXPECT_EQ(owners, 1);
  }
}

}  // namespace
}  // namespace sluice
