#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sluice/comm/engine.h"

namespace sluice {

struct MpiOptions {
  // Longer messages travel in parts of this size, the first 64 of them: over
  // TCP one that MPI sends without asking the receiver first.
  static constexpr std::size_t kPart = std::size_t{1} << 17;
  std::size_t part = kPart;
  // Called by finish() once all messages of this rank have been sent, before
  // MPI_Finalize, which waits for all ranks and for mpirun without a deadline.
  // May be null.
  std::function<void()> before_finalize;
};

// Whether this build has MPI, and whether mpirun or srun started this process.
bool mpi_is_built();
bool mpi_launched();
// Of its library; empty without it.
std::string mpi_version();

// The ranks of MPI_COMM_WORLD, on a duplicate of it. Initialises MPI if nobody
// has; then finish() finalises it. Never waits inside MPI: every message is
// posted and polled, with short sleeps, so that a rank that waits leaves its
// core to one that computes. Without MPI in the build it throws.
std::unique_ptr<Engine> make_mpi_engine(const MpiOptions& options = {});

}  // namespace sluice
