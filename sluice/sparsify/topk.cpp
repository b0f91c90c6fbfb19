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

std::uint64_t warm_sample(std::uint64_t n) {
  return std::clamp<std::uint64_t>(n / 16, 1024, kWarmSample);
}

// The cut moves with the tail, and a quantile of the tail itself is noisy: take
// one at four times the density, where a sample still has enough entries.
std::uint64_t quantile_rank(const SegmentFacts& facts, std::uint64_t sample) {
  const double share = std::clamp(4 * facts.density, 0.02, 0.5);
  const std::uint64_t looked_at = 2 * sample >= facts.n ? facts.n : sample;
  return static_cast<std::uint64_t>(share * static_cast<double>(looked_at));
}

bool is_warm(const RuleCall& call, const TopkState& state) {
  return state.warm != 0 && call.round == 0;
}

}  // namespace

Query TopkRule::ask(const RuleCall& call, const TopkState& state) {
  const SegmentFacts& facts = call.facts;
  Query query;
  if (facts.n <= kTiny) {
    query.sample = facts.n;
    query.ranks[0] = facts.k;
    return query;
  }
  if (!is_warm(call, state)) query = exact_query(facts.n, facts.k);
  if (query.sample == 0) query.sample = warm_sample(facts.n);
  query.ranks[2] = quantile_rank(facts, query.sample);
  return query;
}

Bracket TopkRule::propose(const RuleCall& call, TopkState& state,
                          const Answer& answer) {
  const SegmentFacts& facts = call.facts;
  if (facts.n <= kTiny) {
    return {answer.keys[0], answer.keys[0] + 1, true};
  }
  state.scale_now = static_cast<double>(key_value(answer.keys[2]));
  if (is_warm(call, state)) {
    const double moved = static_cast<double>(key_value(state.threshold)) *
                         (state.scale_now / state.scale);
    const std::uint32_t center = std::min(threshold_key(moved), kInfKey - 1);
    state.predicted = center;
    const std::uint32_t lo = center > state.margin ? center - state.margin : 0;
    // Half of it above: what is taken between the cut and hi is cleared one by
    // one, and that too many reach hi is easily put right.
    return {lo, std::min(center + state.margin / 2, kInfKey)};
  }
  if (state.warm == 0) {
    // After a failed warm bracket both stay, so that observe() learns from it.
    state.margin = kFirstMargin;
    state.predicted = 0;
  }
  return exact_bracket(exact_query(facts.n, facts.k), answer);
}

Verdict TopkRule::judge(const RuleCall& call, const Counts& counts,
                        bool zeros) {
  const std::uint64_t k = call.facts.k;
  if (counts.lo >= k && !counts.overflow) return {Verdict::kTake, k, zeros};
  return {call.round == 0 ? Verdict::kAgain : Verdict::kExact, k, zeros};
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
  rule.ask = [](const RuleCall& call) {
    return TopkRule::ask(call, state_as<TopkState>(call.state));
  };
  rule.propose = [](const RuleCall& call, const Answer& answer) {
    return TopkRule::propose(call, state_as<TopkState>(call.state), answer);
  };
  rule.judge = [](const RuleCall& call, const Counts& counts) {
    return TopkRule::judge(call, counts);
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
