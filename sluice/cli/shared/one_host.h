#pragma once

#include <string>
#include <vector>

namespace sluice {

// Whether mpirun starts all ranks on this host unless it is given others:
// inside an allocation of a batch system it takes the hosts of that.
bool mpirun_stays_here();

// Keeps a job whose ranks all run on this host off the network: while this
// object lives, a process that is started with words() has ranks that exchange
// by shared memory, and listens on the loopback alone. What the user has set in
// the environment (OMPI_MCA_..., NCCL_SOCKET_IFNAME) stays.
//
// Changes the environment; only the thread that starts mpirun may use it. Says
// so on standard error if the library that mpirun needs is missing.
class OneHost {
 public:
  OneHost();
  ~OneHost();
  OneHost(const OneHost&) = delete;
  OneHost& operator=(const OneHost&) = delete;

  // Options for mpirun.
  std::vector<std::string> words() const;

 private:
  int library_ = -1;
  std::string before_;  // LD_PRELOAD of the user
};

}  // namespace sluice
