#pragma once

#include <memory>
#include <span>
#include <string>

#include "sluice/comm/device_link.h"

namespace sluice {

// Of the NCCL that this process finds: one that is there already, as torch's,
// or the system's libnccl.so.2. "2.28.9", or why there is none that will do.
std::string nccl_version();

// What the ranks tell each other before they use NCCL.
struct NcclRank {
  std::string problem;  // why this rank cannot; empty if it can
  int version = 0;      // as ncclGetVersion() says it
  std::string gpu;      // its UUID
  bool shares = false;  // NCCL_MULTI_RANK_GPU_ENABLE=1 is set
};

// Why these ranks cannot use NCCL together, in a sentence; empty if they can.
std::string nccl_problem(std::span<const NcclRank> ranks);

// A link, or why there is none; the same on all ranks.
struct NcclLinkOrProblem {
  std::unique_ptr<DeviceLink> link;
  std::string problem;
};

// A link by NCCL between the CUDA devices of all ranks, for streams of their
// CUDA backends. A call of its own of all ranks, of which some may have a
// problem beforehand. Throws CommError if NCCL fails to connect them.
NcclLinkOrProblem make_nccl_link(Communicator& comm, int device,
                                 const std::string& problem = {});

}  // namespace sluice
