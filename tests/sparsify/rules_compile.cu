// Compiled, not run: every rule must be code that a device can run.

#include "sluice/sparsify/rules.h"

namespace sluice {

struct Step {
  RuleId id;
  SegmentFacts facts;
  RuleParams params;
  RuleState state;
  Query query;
  Answer answer;
  Bracket bracket;
  Counts counts;
  Verdict verdict;
  Outcome outcome;
};

__global__ void run_rules(Step* steps, const std::uint32_t* histogram,
                          TailSums* room) {
  Step& step = steps[threadIdx.x];
  const RuleCall call = {step.facts, step.params, step.state};
  step.query = by_id::ask(step.id, call);
  step.answer.tails = sum_tails(histogram, room);
  step.bracket = step.query.sample > 0
                     ? by_id::propose(step.id, call, step.answer)
                     : exact_bracket(step.query, step.answer);
  step.verdict = by_id::judge(step.id, call, step.counts);
  by_id::observe(step.id, call, step.outcome);
}

}  // namespace sluice
