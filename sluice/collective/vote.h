#pragma once

#include <cstdint>
#include <optional>
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
  kNone,  // this rank has not voted yet; never sent to rank 0
};

// What the ranks decided about a step. A rank that has not heard a decision
// knows only that it is unknown: it cannot infer one from the steps at which
// the other ranks stand, because ranks go on after either decision.
enum class Decision : std::uint8_t { kUnknown, kCommitted, kRolledBack };

struct VoteResult {
  Decision decision = Decision::kUnknown;
  bool stops = false;                 // the job ends; the step is rolled back
  std::vector<std::uint64_t> totals;  // sums over the ranks of their counts
  // If `stops`: the lowest rank that asked for it, and why.
  std::size_t stopper = 0;
  std::string reason;
};

// What a rank knows about the decisions on its steps. vote() and settle()
// update a Standing and send it along, so that ranks that have taken different
// decisions find each other out.
struct Standing {
  // A step that this rank has begun and whose decision it has not heard.
  struct Open {
    std::uint64_t step = 0;
    Ballot ballot = Ballot::kNone;
  };

  std::uint64_t decisions = 0;  // heard so far; equal on all ranks in a vote
  std::uint64_t step = 0;       // of the last one
  Decision last = Decision::kUnknown;  // kUnknown: none was heard yet
  std::vector<std::uint64_t> totals;   // of the last one
  std::optional<Open> open;
};

// Votes on a step, once for all buckets: rank 0 gathers the ballots and
// broadcasts the decision, which is to commit only if all ranks voted yes. The
// counts ride along (say the entries selected per bucket), so that all ranks
// learn the same sums; all ranks must bring equally many. `reason` goes with
// kStop.
//
// Throws CommError if a message is lost or if a rank stands elsewhere. `mine`
// then still has the step open: keep what is staged until settle() if the
// ballot was kYes. `out` is undefined then.
void vote(Communicator& comm, std::uint64_t step, Ballot ballot,
          std::span<const std::uint64_t> counts, Standing& mine,
          VoteResult& out, std::string_view reason = {});

struct Settled {
  // About the step that this rank had open. kUnknown: there was none, or no
  // rank has heard a decision about it, and all ranks roll it back.
  Decision decision = Decision::kUnknown;
  // The step that some rank has open beyond the last decision, if any.
  std::optional<std::uint64_t> next_step;
};

// Ends all doubt on a communicator that has been rebuilt; a call of all ranks
// that go on. A rank with an open step adopts the decision that another rank
// has heard. Afterwards all ranks have heard the same decisions and none has an
// open step. Throws CommError, and changes nothing, if a message is lost.
// Throws std::runtime_error on all ranks if the ranks stand where no vote can
// leave them: at different steps, or with different decisions.
Settled settle(Communicator& comm, Standing& mine);

}  // namespace sluice
