#pragma once

#include "sluice/backend/cuda/sampling.cuh"
#include "sluice/backend/exact.h"
#include "sluice/backend/judge.h"
#include "sluice/sparsify/rules.h"

// The rules of sluice/sparsify, called for a segment; by one thread.

namespace sluice::cuda {

__device__ inline RuleCall call_of(const SelectArgs& a, std::uint32_t segment) {
  const Segment& s = a.segments[segment];
  return {s.task.facts, s.task.rule.params, a.states[segment],
          a.works[segment].round};
}

// Kept apart from the hot loops: the rules need many registers.
__device__ __noinline__ Query ask_rule(const SelectArgs& a,
                                       std::uint32_t segment) {
  return by_id::ask(a.segments[segment].task.rule.id, call_of(a, segment));
}
__device__ __noinline__ Bracket propose_rule(const SelectArgs& a,
                                             std::uint32_t segment,
                                             const Answer& answer) {
  return by_id::propose(a.segments[segment].task.rule.id, call_of(a, segment),
                        answer);
}
__device__ __noinline__ Verdict judge_rule(const SelectArgs& a,
                                           std::uint32_t segment,
                                           const Counts& counts) {
  return by_id::judge(a.segments[segment].task.rule.id, call_of(a, segment),
                      counts);
}
__device__ __noinline__ void observe_rule(const SelectArgs& a,
                                          std::uint32_t segment,
                                          const Outcome& outcome) {
  by_id::observe(a.segments[segment].task.rule.id, call_of(a, segment),
                 outcome);
}

// Asks for what a rule wants to know.
__device__ inline void ask(const Segment& s, Work& w, const Query& query) {
  w.query = query;
  w.asking = 1;
  w.sample = Sample(query, s.task.facts);
}

__device__ inline void select_exactly(const Segment& s, Work& w,
                                      std::uint64_t count) {
  w.exact = 1;
  w.wanted = count < s.task.capacity ? count : s.task.capacity;
  ask(s, w, exact_query(s.task.facts.n, w.wanted));
}

// What has a sign that takes no part counts as a zero, too.
__device__ inline void set_bracket(Work& w, const Bracket& bracket) {
  w.bracket = without_zeros(bracket);
  // As far above the likely cut as below: here nothing is cleared by hi (see
  // clears_from), and a cut above it takes a pass over the candidates.
  if (!w.bracket.ties) {
    const std::uint32_t more = (w.bracket.hi - w.bracket.lo) / 3;
    w.bracket.hi = min_of(w.bracket.hi + more, max_of(w.bracket.hi, kInfKey));
  }
  w.shift = cut_shift(w.bracket.hi - w.bracket.lo);
}

}  // namespace sluice::cuda
