// Stands in for NCCL in builds without CUDA.

#include "sluice/backend/backend.h"
#include "sluice/comm/nccl/nccl.h"

namespace sluice {

NcclLinkOrProblem make_nccl_link(Communicator&, int device,
                                 const std::string& problem) {
  return {nullptr, problem.empty() ? cuda_problem(device) : problem};
}

}  // namespace sluice
