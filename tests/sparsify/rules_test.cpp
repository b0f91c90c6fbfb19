// A device finds its rules by their ids.

#include "sluice/sparsify/rules.h"

#include "support.h"

namespace sluice::testing {
namespace {

struct Trace {
  Query query;
  Bracket bracket;
  Verdict verdict;
  RuleState state;
};

// One step of a rule, the cut found at once.
template <class Ask, class Propose, class Judge, class Observe>
Trace step(const SegmentTask& task, Ask&& ask, Propose&& propose, Judge&& judge,
           Observe&& observe) {
  std::vector<std::uint32_t> histogram(kHistogramBins, 0);
  histogram[bin_of(0.01)] = 900;
  histogram[bin_of(0.5)] = 90;
  histogram[bin_of(1.0)] = 10;
  std::vector<TailSums> sums(kHistogramBins + 1);
  Answer answer;
  answer.sampled = 1000;
  answer.moments = {1000, 0, 3, 64, 32.6, 1.0};
  answer.tails = sum_tails(histogram.data(), sums.data());
  answer.keys.fill(magnitude_key(0.9F));
  Trace trace;
  const RuleCall call = {task.facts, task.rule.params, trace.state};
  trace.query = ask(call);
  trace.bracket = propose(call, answer);
  trace.verdict = judge(call, Counts{task.facts.k, 0, false});
  Outcome outcome;
  outcome.selected = task.facts.k;
  outcome.threshold_key = magnitude_key(0.9F);
  observe(call, outcome);
  return trace;
}

TEST(Rules, AreTheSameByTheirIds) {
  for (const SparsifierEntry& entry : sparsifiers()) {
    const auto sparsifier = make_sparsifier(entry.name);
    for (const std::uint64_t at : {0, 1}) {
      SegmentTask task;
      task.facts.n = 100'000;
      task.facts.density = 0.01;
      task.facts.step = at;
      sparsifier->plan({100, 1000, 1}, task);
      if (task.kind != SelectKind::kThreshold) continue;
      const Rule& rule = task.rule;
      ASSERT_NE(rule.id, RuleId::kCustom) << entry.name;
      EXPECT_LE(rule.rounds, kMaxRounds) << entry.name;
      const Trace a =
          step(task, rule.ask, rule.propose, rule.judge, rule.observe);
      const Trace b = step(
          task, [&](auto&... x) { return by_id::ask(rule.id, x...); },
          [&](auto&... x) { return by_id::propose(rule.id, x...); },
          [&](auto&&... x) { return by_id::judge(rule.id, x...); },
          [&](auto&... x) { return by_id::observe(rule.id, x...); });
      EXPECT_EQ(a.query.sample, b.query.sample) << entry.name;
      EXPECT_EQ(a.query.ranks, b.query.ranks) << entry.name;
      EXPECT_EQ(a.bracket.lo, b.bracket.lo) << entry.name;
      EXPECT_EQ(a.bracket.hi, b.bracket.hi) << entry.name;
      EXPECT_EQ(a.verdict.kind, b.verdict.kind) << entry.name;
      EXPECT_EQ(a.verdict.count, b.verdict.count) << entry.name;
      EXPECT_EQ(a.state.raw, b.state.raw) << entry.name;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
