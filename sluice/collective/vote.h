#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/comm/communicator.h"

namespace sluice {

enum class Decision : std::uint8_t { kCommit, kRollBack };

struct VoteResult {
  Decision decision = Decision::kRollBack;
  std::vector<std::uint64_t> totals;  // of what each rank counted
};

// One vote per step over all buckets: rank 0 gathers what everybody says and
// tells the decision, which is to commit only if all agree. The counts ride
// along (say the entries selected per bucket), so that all ranks learn the same
// sums; all ranks must bring as many.
//
// A CommError here leaves a rank that voted yes in doubt: it must keep what it
// has staged until settle().
VoteResult vote(Communicator& comm, std::uint64_t step, bool success,
                std::span<const std::uint64_t> counts = {});

// Where a rank stands after a failure.
struct Standing {
  std::uint64_t next_step = 0;  // the first that it has not committed
  bool in_doubt = false;        // it voted yes for next_step, and heard no more
  // Of the vote on its last step: as it heard them, or what it counted itself.
  std::vector<std::uint64_t> totals;
};

// Ends all doubt on a communicator that has been rebuilt, with all ranks that
// go on: a step in doubt is committed if any of them committed it, and then
// with the totals that this one heard; else all roll it back. Throws
// std::runtime_error where ranks are further apart than one vote can leave
// them.
VoteResult settle(Communicator& comm, const Standing& mine);

}  // namespace sluice
