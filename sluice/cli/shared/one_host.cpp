#include "sluice/cli/shared/one_host.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "sluice/core/error.h"

namespace sluice {
namespace {

constexpr const char* kPreload = "LD_PRELOAD";

struct Setting {
  const char* name;
  const char* value;
};

// Without the first, Open MPI may choose libraries that open ports themselves;
// without the second, each rank listens on all interfaces. NCCL listens on the
// address of the interface that it is told.
constexpr Setting kSettings[] = {{"OMPI_MCA_pml", "ob1"},
                                 {"OMPI_MCA_btl", "self,vader"},
                                 {"NCCL_SOCKET_IFNAME", "lo"}};

std::string library_path() {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  return (program.parent_path() / SLUICE_LIBRARIES / "bind_to_loopback.so")
      .lexically_normal()
      .string();
}

}  // namespace

bool mpirun_stays_here() {
  // Of Slurm, PBS, LSF and Grid Engine.
  for (const char* name :
       {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"}) {
    if (std::getenv(name) != nullptr) return false;
  }
  return true;
}

OneHost::OneHost() {
  for (const Setting& s : kSettings) setenv(s.name, s.value, 0);
  const std::string path = library_path();
  // By its number, which the process that is started inherits: the loader takes
  // no names with spaces or colons.
  library_ = open(path.c_str(), O_RDONLY);
  if (library_ < 0) {
    std::fprintf(stderr,
                 "[launch] '%s' cannot be read (%s): mpirun listens on all "
                 "interfaces while the job runs; install the program with "
                 "cmake --install\n",
                 path.c_str(), std::strerror(errno));
    return;
  }
  const char* before = std::getenv(kPreload);
  before_ = before == nullptr ? "" : before;
  std::string now = concat("/proc/self/fd/", library_);
  if (!before_.empty()) now += ":" + before_;
  setenv(kPreload, now.c_str(), 1);
}

OneHost::~OneHost() {
  if (library_ < 0) return;
  close(library_);
  if (before_.empty()) {
    unsetenv(kPreload);
  } else {
    setenv(kPreload, before_.c_str(), 1);
  }
}

std::vector<std::string> OneHost::words() const {
  std::vector<std::string> words = {"--mca", "orte_default_hostfile", "none"};
  // The ranks do without: they may listen for purposes of their own.
  if (library_ >= 0) {
    words.insert(words.end(), {"-x", concat(kPreload, "=", before_)});
  }
  return words;
}

}  // namespace sluice
