#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/run/process_id.h"
#include "sluice/run/ranks.h"

namespace sluice {

// One owner of a run folder, for as long as any of its ranks lives.
//
// RUN/run.lock appears whole or not at all, names the processes of all ranks,
// and carries a counter, which any rank advances that sees it stand still. Who
// comes later takes it over if all of these processes have ended, which a
// machine knows of its own at once; of those on other machines (by host name,
// boot and space of process numbers) it believes it once the counter has stood
// still for `stale`, by its own clock. A lock is replaced by a rename, so an
// owner that lost it writes nothing into the new one.
//
// Others may write to a shared folder: a lock is opened without following links
// and without waiting, and its names are checked before they are used.
//
// Asks the file system for atomic link() and rename(), and for a file that is
// opened anew to show what was written and closed elsewhere. Where files have
// no links, making the lock is exclusive, but not whole.
class RunLock {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string host = host_name();
    Clock::duration beat = std::chrono::seconds(2);
    Clock::duration stale = std::chrono::seconds(30);
    // Told why it takes a while, if it does; may be null.
    std::function<void(const std::string&)> say;
  };

  // Takes the folder, which must exist, for all ranks; called by all of them.
  // Throws AgreedError, which names the owner, if it has another one.
  static std::unique_ptr<RunLock> take(Communicator& comm,
                                       const std::string& folder,
                                       const Options& options);

  // The last rank removes the lock where one machine has all of them. Else it
  // stays, and is believed for `stale`.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  enum class State : std::uint8_t { kOurs, kGone, kTaken };
  // As it is now: kGone if the folder was removed or renamed, kTaken if it has
  // another owner. A disk that does not answer changes nothing.
  State look() const;
  // The worst of all ranks; a call of all ranks together.
  State look_together(Communicator& comm, std::uint64_t step) const;
  // Throws std::runtime_error, which says what has become of the folder.
  void require_ours() const;
  // What require_ours() would say.
  std::string describe(State state) const;
  // No rank will write any more: the folder is free. A call of all ranks.
  void release(Communicator& comm, std::uint64_t step) const;

 private:
  RunLock(std::string path, std::string token, const Options& options);
  void beat();

  std::string path_;
  std::string token_;
  Options options_;
  int held_ = -1;  // open, with a shared lock of the kernel's
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sluice
