#include "sluice/cli/shared/mpirun.h"

#include <signal.h>
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
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/cli/shared/child.h"
#include "sluice/cli/shared/one_host.h"
#include "sluice/cli/shared/rank_outputs.h"
#include "sluice/core/ensure.h"
#include "sluice/core/input_file.h"
#include "sluice/run/process_id.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// How long mpirun may take to notice that all ranks have ended.
constexpr auto kGrace = std::chrono::seconds(1);
// How long ranks may take to end, once a deadline has passed or been told.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kSayAfter = std::chrono::seconds(10);
// How long ranks may take to begin, beyond the deadline: libraries come from
// slow disks.
constexpr auto kStart = std::chrono::seconds(60);
// How long nobody may renew the lock: a disk may be slow.
constexpr auto kSilence = std::chrono::seconds(120);

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

std::vector<std::string> command_line(
    const MpirunJob& job, const std::vector<std::string>& more_options) {
  // mpirun waits this long before it sends the survivors of a rank a SIGTERM
  // (its default is 1 s, too early for them to find out who is missing).
  const auto patience = static_cast<long>(std::ceil(job.deadline)) + 5;
  std::vector<std::string> words = {"mpirun",
                                    "--quiet",
                                    "-n",
                                    std::to_string(job.ranks),
                                    "--oversubscribe",
                                    "--bind-to",
                                    "none",
                                    "--mca",
                                    "odls_base_sigkill_timeout",
                                    std::to_string(patience)};
  if (!job.hostfile.empty()) {
    // What starts ranks on another host would otherwise end once they run, and
    // nothing here would show whether they do.
    words.insert(words.end(),
                 {"--hostfile", job.hostfile, "--leave-session-attached"});
    for (const char* name : kRankOutputVariables) {
      words.insert(words.end(), {"-x", name});
    }
  }
  if (job.ranks > std::thread::hardware_concurrency()) {
    words.insert(words.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  words.insert(words.end(), more_options.begin(), more_options.end());
  for (std::string& word : own_arguments()) {
    if (std::ranges::count(job.without, word) == 0) {
      words.push_back(std::move(word));
    }
  }
  words.insert(words.end(), job.more.begin(), job.more.end());
  return words;
}

pid_t start(const MpirunJob& job, const sigset_t& mask) {
  std::optional<OneHost> one_host;
  if (job.hostfile.empty() && mpirun_stays_here()) one_host.emplace();
  const std::vector<std::string> words = command_line(
      job, one_host ? one_host->words() : std::vector<std::string>());
  SpawnOptions options;
  options.mask = mask;
  // Not SIGTERM, which mpirun would sit out for all of its patience: without it
  // the ranks know at once that they are on their own.
  options.orphan_signal = SIGKILL;
  pid_t pid = 0;
  const int error = spawn(pid, words, options);
  ensure(error == 0,
         "[launch] mpirun (Open MPI) must be in PATH to start ranks, got '",
         std::strerror(error), "'; --engine threads works without it");
  return pid;
}

// Of mpirun: on this machine the ranks, else what started them on others.
struct Children {
  bool any = false;  // even if they have ended
  std::vector<pid_t> running;
  std::vector<pid_t> stopped;  // by a signal; they count as running, too
};

// The rank of a process that mpirun started, as its environment says; empty if
// it does not.
std::string rank_of(pid_t pid) {
  constexpr std::string_view kName = "OMPI_COMM_WORLD_RANK=";
  std::ifstream file(concat("/proc/", pid, "/environ"), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(kName)) return entry.substr(kName.size());
  }
  return {};
}

Children children_of(pid_t parent) {
  Children children;
  std::error_code ended;
  for (const auto& task : std::filesystem::directory_iterator(
           concat("/proc/", parent, "/task"), ended)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) {
      children.any = true;
      if (is_running(child)) children.running.push_back(child);
      if (is_stopped(child)) children.stopped.push_back(child);
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

// Sees mpirun and its ranks through to their end.
class Job {
 public:
  Job(pid_t mpirun, const MpirunJob& how, RankOutputs& outputs)
      : mpirun_(mpirun),
        deadline_(how.deadline),
        impatient_(how.impatient),
        ranks_(how.hostfile.empty() ? how.ranks : 0),
        lock_(how.hostfile.empty() ? "" : how.lock),
        outputs_(outputs) {}

  // Returns the status of wait().
  int run(const HeldSignals& signals) {
    int status = 0;
    seen_ = Clock::now();
    begin_until_ =
        seen_ + kStart + std::chrono::duration_cast<Clock::duration>(deadline_);
    while (waitpid(mpirun_, &status, WNOHANG) == 0) {
      const Children ranks = children_of(mpirun_);
      marks_ = outputs_.marks();
      started_ = started_ || ranks.any;
      say_who_is_stopped(ranks);
      look_for_silent_death(ranks);
      if (!started_ || !ranks.running.empty()) seen_ = Clock::now();
      if (signals.came()) stop(ranks);
      outputs_.forward();
      say_what_takes_long();
      if (Clock::now() - seen_ > kGrace) {
        hurry(mpirun_);
        seen_ = Clock::now();
      }
      end_what_does_not_begin(ranks);
      end_what_is_left(ranks);
      end_what_is_done(ranks);
      end_what_does_not_live();
    }
    outputs_.forward();
    marks_ = outputs_.marks();
    remove_files_of(mpirun_);
    return status;
  }

  bool told_to_stop() const { return stops_ > 0; }
  bool started() const { return started_; }
  bool killed() const { return killed_; }
  // A rank has ended before any had said why it fails or was told to stop.
  bool silent_death() const { return silent_; }
  std::size_t told() const { return marks_.told; }
  // All ranks had done their work, but they or mpirun did not end.
  bool ended_after_all() const { return ended_after_all_; }

 private:
  void stop(const Children& ranks) {
    if (++stops_ == 1) stopped_ = Clock::now();
    if (ranks_ > 0) {
      for (const pid_t rank : ranks.running) kill(rank, SIGTERM);
    } else if (stops_ < 3) {
      // Its children only started the ranks; this it takes to them.
      kill(mpirun_, SIGUSR1);
    }
    if (!started_ || (ranks_ == 0 && stops_ >= 3)) hurry(mpirun_);
  }

  // Once another rank gives up. Seen before: mpirun then lets all ranks go on,
  // so that they can take a SIGTERM.
  void say_who_is_stopped(const Children& ranks) {
    if (marks_.told == 0 && !killed_) {
      std::map<pid_t, std::string> now;
      for (const pid_t pid : ranks.stopped) {
        const auto known = stopped_ranks_.find(pid);
        now[pid] = known == stopped_ranks_.end() ? rank_of(pid) : known->second;
      }
      stopped_ranks_ = std::move(now);
      return;
    }
    for (const auto& [pid, rank] : std::exchange(stopped_ranks_, {})) {
      std::fprintf(stderr,
                   "[launch] rank %s (process %d) was stopped by a signal "
                   "(SIGSTOP), so that the others waited for it\n",
                   rank.empty() ? "?" : rank.c_str(), static_cast<int>(pid));
    }
  }

  // Of those that were seen, and those that mpirun started and that ended
  // before they were. On other hosts only mpirun's helpers are seen, which also
  // end when all is well, shortly before it does.
  void look_for_silent_death(const Children& ranks) {
    const auto now = Clock::now();
    pids_.insert(ranks.running.begin(), ranks.running.end());
    if (pids_.empty() || ranks.running.size() + marks_.done >= expected(now)) {
      missed_ = now;
    }
    const auto grace = ranks_ > 0 ? Clock::duration::zero() : kPatience;
    if (now - missed_ > grace && stops_ == 0 && marks_.told == 0) {
      silent_ = true;
    }
  }

  // Ranks that must be there by now, or be done.
  std::size_t expected(Clock::time_point now) {
    if (begun_ == Clock::time_point() && !pids_.empty()) begun_ = now;
    return now - begun_ < kPatience ? pids_.size()
                                    : std::max(pids_.size(), ranks_);
  }

  void say_what_takes_long() {
    if (stops_ == 0 || said_ || Clock::now() - stopped_ < kSayAfter) return;
    said_ = true;
    std::fprintf(stderr,
                 "[launch] the ranks were told to stop %lld s ago: they end "
                 "the step they are in, and save; a third signal ends them at "
                 "once\n",
                 static_cast<long long>(kSayAfter.count()));
  }

  // A rank that has failed has told the others, who have no reason to stay for
  // longer than their own deadline. What does is stopped, or hangs in a network
  // or a disk.
  void end_what_is_left(const Children& ranks) {
    const auto now = Clock::now();
    const bool lost = now - missed_ > kGrace;
    // Nothing that the others could save is whole, and they hold the folder.
    // Where one has told why it ends they may have a word to add; and a stop
    // that came before a rank could take it has ended that one, for whom the
    // others wait inside MPI_Init.
    const bool useless = stops_ == 0 ? impatient_ && (silent_ || lost)
                                     : ranks_ > 0 && marks_.told == 0 && lost;
    for (const pid_t rank : ranks.running) {
      if (useless) kill(rank, SIGKILL);
    }
    if (marks_.told == 0 && !silent_) return;
    if (failed_ == Clock::time_point()) failed_ = now;
    const std::chrono::duration<double> late = now - failed_;
    // Who is still in MPI_Init waits for the one that gave up, or is stopped.
    if (marks_.told > 0 && marks_.begun < ranks_ && late > kPatience) {
      killed_ = killed_ || !ranks.running.empty();
      for (const pid_t rank : ranks.running) kill(rank, SIGKILL);
    }
    if (late < deadline_ + kPatience) return;
    if (!hurried_) {
      hurried_ = true;
      hurry(mpirun_);
    } else if (late > deadline_ + 2 * kPatience) {
      killed_ = true;
      for (const pid_t rank : ranks.running) kill(rank, SIGKILL);
      kill(mpirun_, SIGKILL);
    }
  }

  // Ranks that run look after the others: MPI_Init has a deadline there. mpirun
  // itself may hang, or all that it has started.
  void end_what_does_not_begin(const Children& ranks) {
    if (ranks_ == 0 || marks_.begun >= ranks_ || marks_.told > 0) return;
    // All of them run: their marks do not arrive.
    if (marks_.begun == 0 && ranks.running.size() >= ranks_) return;
    if (Clock::now() < begin_until_) return;
    if (!killed_) {
      std::fprintf(stderr,
                   "[launch] only %zu of %zu ranks have started within %.0f s; "
                   "they are ended\n",
                   marks_.begun, ranks_,
                   std::chrono::duration<double>(deadline_ + kStart).count());
    }
    killed_ = true;
    for (const pid_t rank : ranks.running) kill(rank, SIGKILL);
    kill(mpirun_, SIGKILL);
  }

  // MPI_Finalize waits for mpirun, and that for whoever has connected to its
  // port and says nothing.
  void end_what_is_done(const Children& ranks) {
    const auto now = Clock::now();
    if (ranks_ == 0 || marks_.done < ranks_ || marks_.told > 0) return;
    if (done_ == Clock::time_point()) done_ = now;
    if (now - done_ < deadline_ + kPatience) return;
    if (!ended_after_all_) {
      std::fprintf(stderr,
                   "[launch] all ranks are done, but have not ended in %.0f s: "
                   "MPI_Finalize or mpirun hangs; they are ended\n",
                   std::chrono::duration<double>(now - done_).count());
    }
    ended_after_all_ = true;
    for (const pid_t rank : ranks.running) kill(rank, SIGKILL);
    kill(mpirun_, SIGKILL);
  }

  void end_what_does_not_live() {
    const auto now = Clock::now();
    if (lock_.empty() || now - looked_ < kGrace) return;
    looked_ = now;
    std::string text;
    if (why_no_file(lock_).empty()) {
      std::ifstream file(lock_);
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    if (text.empty() && beaten_ == Clock::time_point()) return;
    if (text != beat_) {
      beat_ = std::move(text);
      beaten_ = now;
      return;
    }
    // Who has given the folder back has nothing left to do but to end.
    const bool over = text.empty();
    const std::chrono::duration<double> still = now - beaten_;
    const auto limit = deadline_ + (over ? kPatience : kSilence);
    if (still < limit) return;
    if (!hurried_) {
      hurried_ = true;
      std::fprintf(stderr,
                   over ? "[launch] '%s' was given back %.0f s ago, but mpirun "
                          "has not ended: a host cannot be reached; mpirun is "
                          "ended\n"
                        : "[launch] no rank has renewed '%s' for %.0f s: they "
                          "have ended, or no host can be reached; mpirun is "
                          "ended\n",
                   lock_.c_str(), still.count());
      hurry(mpirun_);
    } else if (still > limit + kPatience) {
      killed_ = true;
      kill(mpirun_, SIGKILL);
    }
  }

  pid_t mpirun_;
  std::chrono::duration<double> deadline_;
  bool impatient_;
  std::size_t ranks_;  // on this machine; 0: on others
  std::string lock_;   // empty: not looked at
  std::string beat_;   // what it was
  Clock::time_point beaten_;
  Clock::time_point looked_;
  RankOutputs& outputs_;
  RankOutputs::Marks marks_;
  std::set<pid_t> pids_;       // of ranks, all that have been seen
  Clock::time_point begun_;    // they were first seen
  Clock::time_point missed_;   // none was, at that time
  Clock::time_point seen_;     // a rank
  Clock::time_point stopped_;  // told the ranks
  Clock::time_point failed_;   // the first rank that did
  Clock::time_point done_;     // all ranks were
  Clock::time_point begin_until_;
  std::map<pid_t, std::string> stopped_ranks_;  // by process, before any told
  int stops_ = 0;
  bool started_ = false;
  bool said_ = false;
  bool hurried_ = false;
  bool killed_ = false;
  bool silent_ = false;
  bool ended_after_all_ = false;
};

// What mpirun's status says of a rank that has not said why it failed.
std::string guess(int status, const Job& job) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (job.told_to_stop()) {
    return job.started() ? "; they were stopped by a signal before they could "
                           "save anything"
                         : "; they were stopped by a signal before they began";
  }
  // Nothing but SIGKILL ends a rank without a word (mark_crashes).
  if (job.silent_death() || code == 128 + SIGKILL) {
    return "; a rank that has not said why was killed (SIGKILL), perhaps for "
           "memory";
  }
  return job.killed() ? "; what was left of them hung and was killed"
                      : "; some of them were ended by mpirun";
}

}  // namespace

MpirunEnd run_under_mpirun(const MpirunJob& how) {
  RankOutputs outputs;
  if (geteuid() == 0) {
    // mpirun refuses to work for root unless told twice.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  const HeldSignals signals;
  Job job(start(how, signals.before()), how, outputs);
  const int status = job.run(signals);
  MpirunEnd end;
  end.stopped = job.told_to_stop();
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!well && !job.ended_after_all()) {
    end.problem = concat("[launch] all of ", how.ranks, " ranks must end well",
                         job.told() >= how.ranks ? "" : guess(status, job));
  } else if (!outputs.problem().empty()) {
    end.problem = concat(
        "[launch] all ranks ended well, but standard output could not "
        "be written: ",
        outputs.problem());
    end.stopped = true;  // another time would change nothing
  }
  // One that dies while the others are being started may not be missed by
  // anybody; but then none has said why they failed. (Of other hosts only what
  // starts ranks there is seen, which fails where a host cannot be reached.)
  const bool unexplained = job.started() && how.hostfile.empty() &&
                           job.told() == 0 && !end.problem.empty();
  end.died = job.silent_death() || unexplained;
  return end;
}

}  // namespace sluice
