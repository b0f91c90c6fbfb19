#pragma once

#include <cstddef>

namespace sluice {

// Runs this program again, with the same arguments, as `ranks` ranks under
// mpirun, and waits for all of them to end. Throws std::runtime_error if any
// fails, or if there is no mpirun.
//
// A rank that dies is named by the others: mpirun lets them live until
// `deadline` seconds have passed; what is still there some seconds after that
// is ended, mpirun included. SIGINT, SIGTERM and SIGHUP go to the ranks. If
// this process is killed, mpirun is, and the ranks end by themselves
// (ParentWatch).
void run_under_mpirun(std::size_t ranks, double deadline);

}  // namespace sluice
