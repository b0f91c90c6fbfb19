#pragma once

#include "sluice/backend/pass.h"
#include "sluice/core/device.h"

// What a selection makes of the counts of a bracket: the same on every device,
// whatever they were counted by.

namespace sluice {

// The stream of the CPU notices a full list at the next block of so many.
inline constexpr std::uint64_t kBlockRoom = 1024;

// Ties that a pass records of a bracket, one more than can be taken: that tells
// whether there were more. 0: all of them. `wanted`: by exact selection.
SLUICE_HD inline std::uint64_t tie_cap(const SegmentTask& task,
                                       const Bracket& bracket,
                                       std::uint64_t wanted) {
  if (!bracket.ties) return 0;
  return max_of(task.facts.k, wanted) + 1;
}

// What rules hear of `recorded` candidates, of which `high` reach hi: counts
// that do not depend on how many pieces recorded them, each up to the cap of
// ties, and a few beyond it, or until its list was full. `room`: candidates of
// the segment that are not an overflow; one for every element cannot be.
SLUICE_HD inline Counts count_candidates(const SegmentTask& task,
                                         std::uint64_t recorded,
                                         std::uint64_t high, std::uint64_t cap,
                                         std::uint64_t room) {
  Counts counts = {recorded, high};
  std::uint64_t most = recorded;  // that one piece alone would record
  if (cap > 0) {
    counts.lo = min_of(counts.lo, counts.hi + cap - 1);
    most = counts.hi + cap + kBlockRoom;
  }
  if (room < task.facts.n && most > room) counts = {room, 0, true};
  return counts;
}

// Of exact selection: kTake, or kExact if the bracket failed and only a search
// over all elements is left. What has been searched for is always taken.
SLUICE_HD inline Verdict judge_exact(const Counts& counts,
                                     const Bracket& bracket,
                                     std::uint64_t wanted, bool zeros,
                                     bool searched) {
  // A bracket that starts at the bottom has seen everything there is.
  const bool all = bracket.lo <= (zeros ? 0U : 1U);
  const bool enough = !counts.overflow && (all || counts.lo >= wanted);
  if (!enough && !searched) return {Verdict::kExact, wanted, zeros};
  return {Verdict::kTake, min_of(wanted, counts.lo)};
}

// What a rule's verdict comes to after so many rounds, this one included: it
// may not take what is not there, send more than the capacity, or go on for
// ever.
SLUICE_HD inline Verdict bounded(Verdict verdict, const Counts& counts,
                                 const SegmentTask& task,
                                 std::uint32_t rounds) {
  if (counts.overflow && verdict.kind == Verdict::kTake) {
    verdict.kind = Verdict::kExact;  // not all of them are there to take
  }
  if (verdict.kind == Verdict::kAgain && rounds >= task.rule.rounds) {
    return {Verdict::kExact, task.facts.k};
  }
  if (verdict.kind == Verdict::kTake) {
    verdict.count =
        min_of(min_of(verdict.count, counts.lo), std::uint64_t{task.capacity});
  }
  return verdict;
}

}  // namespace sluice
