#pragma once

#include <cstddef>

namespace sluice {

// Runs this program again, with the same arguments, as `ranks` ranks under
// mpirun, and waits for all of them to end. Throws std::runtime_error if any
// fails, or if there is no mpirun.
//
// A rank that dies is named by the others: mpirun lets them live until
// `deadline` seconds have passed. SIGINT and SIGTERM go to the ranks.
void run_under_mpirun(std::size_t ranks, double deadline);

// Whether run_under_mpirun started this process.
bool is_under_mpirun();

// In a rank that run_under_mpirun started on this machine: standard error
// becomes that of the program that the user started.
void share_standard_error();

// In such a rank, before it ends for an error that it or another has told:
// nobody need guess why it did.
void mark_as_told();

}  // namespace sluice
