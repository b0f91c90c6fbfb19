#include "sluice/comm/mpi/mpi.h"
#include "sluice/core/error.h"

namespace sluice {

bool mpi_is_built() { return false; }
bool mpi_launched() { return false; }
std::string mpi_version() { return {}; }

std::unique_ptr<Engine> make_mpi_engine(const MpiOptions&) {
  throw std::runtime_error(
      "[mpi] this build has no MPI; install libopenmpi-dev and configure with "
      "-DSLUICE_WITH_MPI=ON");
}

}  // namespace sluice
