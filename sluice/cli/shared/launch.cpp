#include "sluice/cli/shared/launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "sluice/cli/shared/help.h"
#include "sluice/cli/shared/mpirun.h"
#include "sluice/cli/shared/parent_watch.h"
#include "sluice/cli/shared/rank_outputs.h"
#include "sluice/cli/shared/watchdog.h"
#include "sluice/comm/mpi/mpi.h"
#include "sluice/comm/threads/threads.h"
#include "sluice/core/ensure.h"
#include "sluice/core/message.h"
#include "sluice/run/ranks.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostWorkers = 1024;
constexpr double kLongest = 86400;
// For a checkpoint of a rank whose parent has ended.
constexpr std::chrono::seconds kOrphanGrace(60);
// What ranks may take, beyond the deadline, to come into MPI one after another
// and to leave it.
constexpr std::chrono::seconds kMpiGrace(10);

// What mpirun, or srun, tells a process in its environment.
std::optional<std::int64_t> from_environment(
    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoll(text);
  }
  return std::nullopt;
}

std::optional<std::int64_t> launched_size() {
  if (!mpi_launched()) return std::nullopt;
  return from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
}

void check_size(std::int64_t workers, std::int64_t size) {
  require(workers == size, "[launch] --workers must be the number of ranks ",
          "that mpirun started, ", size, ", or left out, got ", workers);
}

std::unique_ptr<Communicator> make_rank(std::unique_ptr<Engine> engine,
                                        const LaunchOptions& options) {
  if (const auto link = options.link()) {
    engine = make_emulated(std::move(engine), *link);
  }
  auto comm = std::make_unique<Communicator>(std::move(engine));
  comm->set_timeout(std::chrono::duration_cast<Communicator::Clock::duration>(
      std::chrono::duration<double>(options.timeout)));
  return comm;
}

std::string problem_of_rank(const std::exception& e) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
  return memory ? "[launch] not enough memory; ask for fewer elements or ranks"
                : message_of(e);
}

// Runs the work of one rank; if it fails, the others need not find out by their
// deadlines.
void work_on(Communicator& comm,
             const std::function<void(Communicator&)>& work) {
  try {
    work(comm);
    comm.finish();
  } catch (const std::exception& e) {
    const std::exception_ptr error = std::current_exception();
    try {
      if (!comm.failed()) comm.abandon(problem_of_rank(e));
    } catch (const CommError&) {
    }
    std::rethrow_exception(error);
  }
}

[[noreturn]] void leave(std::int64_t rank, const std::exception& e) {
  signal(SIGTERM, SIG_IGN);  // it would say the same once more
  std::fflush(stdout);
  mark_as_told();
  if (dynamic_cast<const SpokenFor*>(&e) != nullptr) {
    // mpirun ends the others once a rank has left; let the one that knows more
    // speak first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    _exit(1);
  }
  fmt::print(stderr, "rank {} (host {}, process {}): {}\n", rank, host_name(),
             getpid(), problem_of_rank(e));
  std::fflush(stderr);
  _exit(1);
}

// All is done that this rank was started for.
[[noreturn]] void leave_done(std::int64_t rank,
                             std::chrono::duration<double> limit) {
  fmt::print(stderr,
             "rank {} (host {}, process {}): [launch] the job is complete, but "
             "MPI_Finalize has not returned in {:g} s; this rank ends without "
             "it\n",
             rank, host_name(), getpid(), limit.count());
  std::fflush(stderr);
  _exit(0);
}

// MPI_Init waits for all ranks, and for mpirun, without a deadline.
std::unique_ptr<Engine> start_mpi(std::int64_t rank,
                                  std::chrono::duration<double> limit,
                                  const MpiOptions& options) {
  const Watchdog watchdog(limit, [=] {
    leave(rank,
          std::runtime_error(concat(
              "[launch] all ranks must start within ", limit.count(),
              " s (--timeout, and ", kMpiGrace.count(),
              "), but MPI_Init has not returned: a rank has not started, is "
              "stopped, or cannot be reached")));
  });
  return make_mpi_engine(options);
}

void run_mpi_rank(const LaunchOptions& options,
                  const std::function<void(Communicator&)>& work) {
  share_outputs();
  report_waits_on_sigterm();
  // Whoever read what this rank writes may have ended before it.
  signal(SIGPIPE, SIG_IGN);
  const ParentWatch watch(std::chrono::duration<double>(2 * options.timeout) +
                          kOrphanGrace);
  std::int64_t rank =
      from_environment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
          .value_or(-1);
  const std::chrono::duration<double> limit =
      std::chrono::duration<double>(options.timeout) + kMpiGrace;
  std::optional<Watchdog> end;
  MpiOptions mpi;
  mpi.before_finalize = [&] {
    std::fflush(stdout);
    mark_as_done();
    end.emplace(limit, [&] { leave_done(rank, limit); });
  };
  try {
    auto engine = start_mpi(rank, limit, mpi);
    mark_as_begun();
    mark_crashes();  // after MPI, which has handlers of its own
    rank = static_cast<std::int64_t>(engine->rank());
    const auto size = static_cast<std::int64_t>(engine->size());
    check_size(options.workers.value_or(size), size);
    const auto comm = make_rank(std::move(engine), options);
    work_on(*comm, [&](Communicator& c) {
      work(c);
      if (!watch.left_alone()) return;
      // MPI_Finalize would wait for the process that has ended.
      std::fflush(stdout);
      _exit(1);
    });
  } catch (const std::exception& e) {
    leave(rank, e);
  }
}

// A rank that only lost another knows less than one that failed by itself.
void throw_first(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr lost;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const CommError&) {
      if (!lost) lost = error;
    }
  }
  if (lost) std::rethrow_exception(lost);
}

void run_threads(const LaunchOptions& options,
                 const std::function<void(Communicator&)>& work) {
  ManualClock clock;
  ThreadRankOptions how;
  if (options.engine == "simulated") how.clock = &clock;
  how.closes = true;
  auto engines = make_thread_engines(options.ranks(), how);
  std::vector<std::exception_ptr> errors(engines.size());
  std::vector<std::thread> threads;
  const auto run = [&](std::size_t r) {
    try {
      work_on(*make_rank(std::move(engines[r]), options), work);
    } catch (...) {
      errors[r] = std::current_exception();
    }
  };
  for (std::size_t r = 0; r < engines.size(); ++r) {
    try {
      threads.emplace_back(run, r);
    } catch (const std::system_error& e) {
      errors[r] = std::current_exception();
      // The others hear at once that this rank will never run.
      try {
        make_rank(std::move(engines[r]), options)->abandon(problem_of_rank(e));
      } catch (const CommError&) {
      }
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  throw_first(errors);
}

// What fails by its own word before it gets anywhere would do so again.
bool is_worth_another(const Recovery& how, const MpirunJob& job,
                      const MpirunEnd& end, const Reached& before) {
  if (how.on_failure == "stop" || end.stopped) return false;
  const Reached now = how.reached();
  const bool moved = now.saved > before.saved || now.done > before.done;
  return (end.died || moved) && (how.on_failure != "shrink" || job.ranks > 1);
}

void say_restart(const MpirunJob& job, const Recovery& how, const Reached& at,
                 std::int64_t number) {
  const std::string lost = at.done > at.saved
                               ? fmt::format("; steps {} to {} are done again",
                                             at.saved + 1, at.done)
                               : "";
  fmt::print(stderr,
             "[launch] a rank failed; going on from step {} with {} ranks "
             "(restart {} of {}){}\n",
             at.saved, job.ranks, number, how.max_restarts, lost);
}

void run_until_well(const LaunchOptions& options) {
  const Recovery& how = options.recovery;
  MpirunJob job;
  job.ranks = options.ranks();
  job.deadline = options.timeout;
  job.hostfile = options.hostfile;
  job.lock = options.lock;
  job.impatient = how.on_failure != "stop";
  for (std::int64_t restarts = 0;; ++restarts) {
    const Reached before = how.reached ? how.reached() : Reached{};
    const MpirunEnd end = run_under_mpirun(job);
    if (end.problem.empty()) return;
    ensure(is_worth_another(how, job, end, before), end.problem);
    ensure(restarts < how.max_restarts, end.problem, ", and have not after ",
           restarts, " restarts (--max-restarts)");
    if (how.on_failure == "shrink") --job.ranks;
    job.more = how.more;
    job.more.insert(job.more.end(), {"--workers", std::to_string(job.ranks)});
    job.without = how.without;
    say_restart(job, how, how.reached(), restarts + 1);
  }
}

}  // namespace

LaunchOptions::LaunchOptions() : engine(mpi_is_built() ? "mpi" : "threads") {}

std::size_t LaunchOptions::ranks() const {
  constexpr std::int64_t kDefault = 4;
  return static_cast<std::size_t>(
      workers.value_or(launched_size().value_or(kDefault)));
}

std::optional<Link> LaunchOptions::link() const {
  return net.empty() ? std::nullopt : std::optional(parse_link(net));
}

std::string LaunchOptions::network() const {
  const auto emulated = link();
  if (!emulated) return "as it is";
  return (engine == "simulated" ? "simulated: " : "emulated: ") +
         describe(*emulated);
}

void add_launch_options(CLI::App& command, LaunchOptions& options) {
  command.add_option(
      "--workers", options.workers,
      "Ranks; 4 unless mpirun or srun says otherwise, which is started here "
      "if need be");
  command
      .add_option("--engine", options.engine,
                  "mpi: processes; threads: in this process; simulated: the "
                  "same, and computing takes no time (needs --net)")
      ->capture_default_str();
  command.add_option("--net", options.net,
                     "Emulate a network, as in 50us,1Gbit or seconds and "
                     "seconds per byte; then RANK=FACTOR for slow ranks");
  command
      .add_option("--timeout", options.timeout,
                  "Seconds after which a rank that does not answer is lost")
      ->capture_default_str();
  command.add_option("--hostfile", options.hostfile,
                     "Hosts for the ranks, as mpirun takes them; else all run "
                     "on this one");
  group_options(command, "Workers",
                {"--workers", "--engine", "--net", "--timeout", "--hostfile"});
}

void add_recovery_options(CLI::App& command, LaunchOptions& options) {
  command
      .add_option("--on-failure", options.recovery.on_failure,
                  "When a rank fails that was started here: stop; restart: go "
                  "on from the last checkpoint with as many; shrink: with one "
                  "fewer (needs --out)")
      ->capture_default_str();
  command
      .add_option("--max-restarts", options.recovery.max_restarts,
                  "How often, at most")
      ->capture_default_str();
  group_options(command, "Workers", {"--on-failure", "--max-restarts"});
}

namespace {

// Processes that this one starts can be started again.
void check_recovery(const LaunchOptions& o) {
  const Recovery& r = o.recovery;
  require(r.on_failure == "stop" || r.on_failure == "restart" ||
              r.on_failure == "shrink",
          "[launch] --on-failure must be stop, restart or shrink, got '",
          r.on_failure, "'");
  require(r.max_restarts >= 0 && r.max_restarts <= 1000000,
          "[launch] --max-restarts must be from 0 to 1000000, got ",
          r.max_restarts);
  require(r.on_failure == "stop" || o.engine == "mpi", "[launch] --on-failure ",
          r.on_failure, " needs --engine mpi, got ", o.engine);
  require(r.on_failure == "stop" || !mpi_launched() || has_rank_outputs(),
          "[launch] --on-failure ", r.on_failure,
          " is for ranks that sluice starts itself (--workers), but mpirun or "
          "srun has; let that restart the job with --resume auto");
  require(o.hostfile.empty() || !mpi_launched() || has_rank_outputs(),
          "[launch] --hostfile is for ranks that sluice starts itself, but "
          "mpirun or srun has; give it to mpirun");
  require(o.hostfile.empty() || o.engine == "mpi",
          "[launch] --hostfile needs --engine mpi, got ", o.engine);
  require(o.hostfile.empty() || std::filesystem::is_regular_file(o.hostfile),
          "[launch] --hostfile must be a file, got '", o.hostfile, "'");
}

}  // namespace

void check_launch(const LaunchOptions& o) {
  check_recovery(o);
  require(o.engine == "mpi" || o.engine == "threads" || o.engine == "simulated",
          "[launch] no engine '", o.engine, "'; known: mpi threads simulated");
  require(o.engine != "mpi" || mpi_is_built(),
          "[launch] --engine mpi needs a build with MPI (configure with "
          "-DSLUICE_WITH_MPI=ON); --engine threads works in this one");
  const std::int64_t workers = o.workers.value_or(1);
  require(workers >= 1 && workers <= kMostWorkers,
          "[launch] --workers must be from 1 to ", kMostWorkers, ", got ",
          workers);
  const auto size = launched_size();
  require(!mpi_launched() || o.engine == "mpi",
          "[launch] mpirun has started ranks, so --engine must be mpi, got ",
          o.engine, "; start the program without mpirun for that");
  if (size) check_size(o.workers.value_or(*size), *size);
  require(o.timeout > 0 && o.timeout <= kLongest,
          "[launch] --timeout must be above 0 and at most ", kLongest,
          " seconds, got ", o.timeout);
  const auto link = o.link();
  require(o.engine != "simulated" || link,
          "[launch] --engine simulated needs a network, as in --net "
          "50us,1Gbit");
  require(!link || link->slow_downs.size() <= o.ranks(),
          "[launch] a slow rank of --net must be below ", o.ranks(),
          ", the number of ranks, got '", o.net, "'");
}

void run_ranks(const LaunchOptions& options,
               const std::function<void(Communicator&)>& work) {
  if (options.engine != "mpi") return run_threads(options, work);
  if (mpi_launched()) return run_mpi_rank(options, work);
  ensure(!has_rank_outputs(),
         "[launch] mpirun must be Open MPI's, of the MPI that this program was "
         "built with, but it told the ranks nothing; --engine threads works "
         "without it");
  run_until_well(options);
}

bool is_first_process() {
  return !mpi_launched() || from_environment({"OMPI_COMM_WORLD_RANK",
                                              "PMIX_RANK", "PMI_RANK"}) == 0;
}

void let_first_process_speak() {
  mark_as_told();
  if (!is_first_process()) std::this_thread::sleep_for(std::chrono::seconds(2));
}

}  // namespace sluice
