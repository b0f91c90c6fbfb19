#pragma once

#include "sluice/backend/pass.h"
#include "sluice/core/device.h"

// What a selection makes of the counts of a bracket: the same on every device,
// whatever they were counted by.

namespace sluice {

// The stream of the CPU notices a full list at the next block of so many.
inline constexpr std::uint64_t kBlockRoom = 1024;

// The bracket that a pass goes by: a zero is never sent, so it has no place in
// any.
SLUICE_HD inline Bracket without_zeros(const Bracket& bracket) {
  if (bracket.lo > 0) return bracket;
  return {1, max_of(bracket.hi, 1U), false, bracket.exact};
}

// Ties that a pass records of a bracket, one more than can be taken: that tells
// whether there were more. 0: all of them. `wanted`: by exact selection.
SLUICE_HD inline std::uint64_t tie_cap(const SegmentTask& task,
                                       const Bracket& bracket,
                                       std::uint64_t wanted) {
  if (!bracket.ties) return 0;
  return max_of(task.facts.k, wanted) + 1;
}

// What rules hear of the candidates that were recorded: counts that do not
// depend on how many pieces recorded them, each up to the cap of ties, and a
// few beyond it, or until its list was full. `room`: candidates of the segment
// that are not an overflow; one for every element cannot be.
SLUICE_HD inline Counts count_candidates(const SegmentTask& task,
                                         const Bracket& bracket,
                                         std::uint64_t wanted,
                                         const Counts& recorded,
                                         std::uint64_t room) {
  Counts counts = recorded;
  std::uint64_t most = recorded.lo;  // that one piece alone would record
  const std::uint64_t cap = tie_cap(task, bracket, wanted);
  if (cap > 0) {
    counts.lo = min_of(counts.lo, counts.hi + cap - 1);
    most = counts.hi + cap + kBlockRoom;
  }
  if (room < task.facts.n && most > room) counts = {room, 0, true};
  counts.all = bracket.lo <= 1;
  return counts;
}

// Of exact selection: kTake, or kExact if the bracket failed and only a search
// over all elements is left. What has been searched for is always taken.
SLUICE_HD inline Verdict judge_exact(const Counts& counts, std::uint64_t wanted,
                                     bool searched) {
  const bool enough = !counts.overflow && (counts.all || counts.lo >= wanted);
  if (!enough && !searched) return {Verdict::kExact, wanted};
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
