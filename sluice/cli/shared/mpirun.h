#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

struct MpirunJob {
  std::size_t ranks = 1;
  double deadline = 60;  // seconds
  std::string hostfile;  // mpirun's; empty: this machine
  // A file that ranks change every few seconds: of those on other hosts nothing
  // else tells that they have ended where mpirun waits for a host that is gone.
  std::string lock;
  bool impatient = false;  // a rank that dies ends all of them at once
  // Follow the arguments of this process, of which those in `without` are left
  // out.
  std::vector<std::string> more;
  std::vector<std::string> without;
};

struct MpirunEnd {
  std::string problem;   // empty: all ranks ended well
  bool stopped = false;  // by a signal to this process, or at their end
  bool died = false;     // a rank has, without a word
};

// Runs this program again, with the same arguments, as ranks under mpirun, and
// waits for all of them to end. Throws std::runtime_error if there is no
// mpirun.
//
// A rank that dies is named by the others: mpirun lets them live until
// `deadline` seconds have passed; what is still there some seconds after that
// is ended, mpirun included, as it is when no rank has renewed `lock` for two
// minutes and `deadline`, when ranks have not begun to run in a minute and
// `deadline`, and, as a job that is complete, when all ranks are done and have
// not ended some seconds after `deadline`. SIGINT, SIGTERM and SIGHUP go to the
// ranks. If this process is killed, mpirun is, and the ranks end by themselves
// (ParentWatch).
MpirunEnd run_under_mpirun(const MpirunJob& job);

}  // namespace sluice
