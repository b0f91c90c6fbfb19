#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/comm/communicator.h"
#include "sluice/comm/emulated/emulated.h"

// How a command gets its ranks.

namespace CLI {
class App;
}

namespace sluice {

// How far a job has come, in steps.
struct Reached {
  std::uint64_t saved = 0;  // what it can go on from
  std::uint64_t done = 0;
};

// What becomes of a job of which a rank fails.
struct Recovery {
  std::string on_failure = "stop";  // or restart, shrink
  std::int64_t max_restarts = 10;
  std::function<Reached()> reached;
  // Arguments that let it go on, and those that would not.
  std::vector<std::string> more;
  std::vector<std::string> without;
};

struct LaunchOptions {
  LaunchOptions();

  std::optional<std::int64_t> workers;  // else as many as mpirun gave, or 4
  std::string engine;                   // mpi, threads or simulated
  std::string net;                      // see parse_link; empty: none
  double timeout = 60;                  // seconds; of every call
  std::string hostfile;                 // for mpirun, if it is started here
  std::string lock;                     // a file that ranks renew; or none
  Recovery recovery;

  std::size_t ranks() const;
  std::optional<Link> link() const;
  // "as it is", "emulated: 50 us, 1 Gbit/s" or "simulated: ...".
  std::string network() const;
};

// --workers, --engine, --net, --timeout and --hostfile.
void add_launch_options(CLI::App& command, LaunchOptions& options);
// --on-failure and --max-restarts.
void add_recovery_options(CLI::App& command, LaunchOptions& options);

// Throws std::invalid_argument unless the options make sense together, here.
void check_launch(const LaunchOptions& options);

// For work on a rank that fails for what another rank says: it says nothing
// itself.
class SpokenFor : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Calls `work` once per rank; only rank 0 should print. Returns when all ranks
// are done.
//
// With the engine mpi and not under mpirun or srun yet, runs the program again
// under mpirun; throws std::runtime_error if a rank fails there and that is not
// recovered from. A rank of MPI
// whose work throws says so, with its host, process and rank, and ends the
// process: MPI_Finalize hangs after an error. With threads the error that
// started it all is thrown here.
void run_ranks(const LaunchOptions& options,
               const std::function<void(Communicator&)>& work);

// mpirun starts many processes that all find the same mistake on the command
// line. Returns at once in the first of them, else after a while: by then
// mpirun has ended the process if the first one failed, too. A launcher of ours
// knows then that somebody speaks.
void let_first_process_speak();
bool is_first_process();

}  // namespace sluice
