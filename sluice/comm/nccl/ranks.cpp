#include <map>

#include "sluice/comm/nccl/api.h"
#include "sluice/comm/nccl/nccl.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

// The first that lets ranks share a GPU if they say so.
constexpr int kSharing = 23003;

}  // namespace

std::string nccl_version() {
  const nccl::Api& api = nccl::api();
  return api.problem.empty() ? nccl::version_text(api.version) : api.problem;
}

std::string nccl_problem(std::span<const NcclRank> ranks) {
  std::map<std::string, std::size_t> users;  // of GPUs
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const NcclRank& rank = ranks[r];
    if (!rank.problem.empty()) {
      return concat(rank.problem, " (rank ", r, ")");
    }
    if (rank.version != ranks[0].version) {
      return concat("[nccl] all ranks must have the same NCCL, but rank 0 has ",
                    nccl::version_text(ranks[0].version), " and rank ", r, " ",
                    nccl::version_text(rank.version));
    }
    const auto [at, alone] = users.emplace(rank.gpu, r);
    if (alone || (rank.version >= kSharing && rank.shares)) continue;
    return concat("[nccl] ranks ", at->second, " and ", r,
                  " are on one GPU, which NCCL ",
                  nccl::version_text(rank.version),
                  rank.version >= kSharing
                      ? " takes only with NCCL_MULTI_RANK_GPU_ENABLE=1"
                      : " refuses; give each rank a GPU of its own");
  }
  return {};
}

}  // namespace sluice
