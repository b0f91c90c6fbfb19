#include "sluice/sparsify/topk.h"

#include <algorithm>
#include <cmath>

#include "sluice/backend/exact.h"
#include "sluice/core/key.h"

namespace sluice {
namespace {

// Up to here the whole segment is looked at, and the cut is known beforehand.
constexpr std::uint64_t kTiny = 8192;
constexpr std::uint64_t kWarmSample = 1U << 15;
// Keys per octave are 2^23. The first margin is 3 %.
constexpr std::uint32_t kFirstMargin = 1U << 18;
constexpr std::uint32_t kMinMargin = 1U << 15;
constexpr std::uint32_t kMaxMargin = 1U << 22;

}  // namespace

Query TopkRule::ask(const SegmentFacts& facts, const TopkState& state,
                    std::uint32_t round) {
  Query query;
  if (facts.n <= kTiny) {
    query.sample = facts.n;
    query.ranks = {facts.k, 0};
    return query;
  }
  if (state.warm != 0 && round == 0) {
    query.sample = std::clamp<std::uint64_t>(facts.n / 16, 1024, kWarmSample);
    return query;
  }
  return exact_query(facts.n, facts.k);
}

Bracket TopkRule::propose(const SegmentFacts& facts, TopkState& state,
                          const Answer& answer) {
  const Moments& moments = answer.moments;
  state.scale_now = moments.count > 0
                        ? moments.sum_abs / static_cast<double>(moments.count)
                        : 0;
  if (facts.n <= kTiny) {
    state.predicted = answer.keys[0];
    return {answer.keys[0], answer.keys[0] + 1, true, false};
  }
  const bool sampled_ranks = answer.histogram != nullptr;
  if (!sampled_ranks) {
    const double moved = static_cast<double>(key_value(state.threshold)) *
                         (state.scale_now / state.scale);
    const std::uint32_t center = std::min(threshold_key(moved), kInfKey - 1);
    state.predicted = center;
    const std::uint32_t lo = center > state.margin ? center - state.margin : 0;
    return {lo, std::min(center + state.margin, kInfKey), false, false};
  }
  if (state.warm == 0) {
    // After a failed warm bracket both stay, so that observe() learns from it.
    state.margin = kFirstMargin;
    state.predicted = 0;
  }
  return exact_bracket(exact_query(facts.n, facts.k), answer);
}

Verdict TopkRule::judge(const SegmentFacts& facts, const Counts& counts,
                        bool zeros) {
  if (counts.lo >= facts.k && !counts.overflow) {
    return {Verdict::kTake, facts.k, zeros};
  }
  return {counts.round == 0 ? Verdict::kAgain : Verdict::kExact, facts.k,
          zeros};
}

void TopkRule::observe(TopkState& state, const Outcome& outcome) {
  const bool usable = outcome.selected > 0 && !outcome.tied &&
                      state.scale_now > 0 && std::isfinite(state.scale_now) &&
                      outcome.threshold_key < kInfKey;
  if (state.warm != 0 && usable && state.predicted > 0) {
    const std::uint32_t miss = outcome.threshold_key > state.predicted
                                   ? outcome.threshold_key - state.predicted
                                   : state.predicted - outcome.threshold_key;
    // Widen at once, narrow slowly: a failed bracket costs a second pass.
    const std::uint32_t wanted = std::max(std::min(miss, kMaxMargin) * 2,
                                          state.margin - state.margin / 8);
    state.margin = std::clamp(wanted, kMinMargin, kMaxMargin);
  }
  state.warm = usable ? 1 : 0;
  state.threshold = outcome.threshold_key;
  state.scale = state.scale_now;
}

Rule topk_rule(int sign) {
  Rule rule;
  rule.ask = [](const RuleCall& call, std::uint32_t round) {
    return TopkRule::ask(call.facts, state_as<TopkState>(call.state), round);
  };
  rule.propose = [](const RuleCall& call, const Answer& answer) {
    return TopkRule::propose(call.facts, state_as<TopkState>(call.state),
                             answer);
  };
  rule.judge = [](const RuleCall& call, const Counts& counts) {
    return TopkRule::judge(call.facts, counts);
  };
  rule.observe = [](const RuleCall& call, const Outcome& outcome) {
    TopkRule::observe(state_as<TopkState>(call.state), outcome);
  };
  rule.sign = sign;
  return rule;
}

void Topk::choose(const Shape3&, SegmentTask& task) const {
  task.kind = SelectKind::kThreshold;
  task.rule = topk_rule();
  task.capacity = task.facts.k;
}

}  // namespace sluice
