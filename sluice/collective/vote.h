#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/comm/communicator.h"

namespace sluice {

enum class Ballot : std::uint8_t {
  kYes,
  kNo,    // roll the step back and go on
  kStop,  // roll it back and end the job
};

enum class Decision : std::uint8_t { kCommit, kRollBack, kStop };

struct VoteResult {
  Decision decision = Decision::kRollBack;
  std::vector<std::uint64_t> totals;  // of what each rank counted
  // With kStop: which rank wants to, the lowest of them, and why.
  std::size_t stopper = 0;
  std::string reason;
};

// One vote per step over all buckets: rank 0 gathers what everybody says and
// broadcasts the decision, which is to commit only if all agree. The counts
// ride along (say the entries selected per bucket), so that all ranks learn the
// same sums; all ranks must bring as many. `reason` goes with kStop.
//
// A CommError here leaves a rank that voted yes in doubt: it must keep what it
// has staged until settle(). `out` is undefined then.
void vote(Communicator& comm, std::uint64_t step, Ballot mine,
          std::span<const std::uint64_t> counts, VoteResult& out,
          std::string_view reason = {});

// Where a rank stands after a failure.
struct Standing {
  std::uint64_t next_step = 0;  // the first that it has not committed
  bool in_doubt = false;        // it voted yes for next_step, and heard no more
  // Of the last vote whose decision it heard, or as many zeros; for a rank in
  // doubt of as many counts as there.
  std::vector<std::uint64_t> totals;
};

// Ends all doubt on a communicator that has been rebuilt, with all ranks that
// go on: a step in doubt is committed if any of them committed it, and then
// with the totals that this one heard; else all roll it back. Throws
// std::runtime_error where ranks are further apart than one vote can leave
// them.
VoteResult settle(Communicator& comm, const Standing& mine);

}  // namespace sluice
