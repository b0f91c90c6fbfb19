#include "sluice/sparsify/threshold.h"

#include <algorithm>

#include "sluice/core/key.h"

namespace sluice {
namespace {

struct RuleConstants {
  std::uint32_t key;
  double cap;
};

std::uint64_t most(const SegmentFacts& facts, double cap) {
  if (cap <= 0) return facts.n;
  const double limit = cap * static_cast<double>(facts.k);
  return std::min(facts.n, static_cast<std::uint64_t>(limit));
}

}  // namespace

ParamList Threshold::list(Params& p) {
  return {{"value", &p.value, "send magnitudes above this", 0},
          {"cap", &p.cap,
           "send the k largest when more than cap * k pass; 0: no cap", 0}};
}

void Threshold::choose(const Shape3&, SegmentTask& task) const {
  Rule rule = take_all_rule();
  rule.params =
      pack_params(RuleConstants{above_key(params_.value), params_.cap});
  rule.propose = [](const RuleCall& call, const Answer&) {
    const std::uint32_t key = params_as<RuleConstants>(call.params).key;
    return Bracket{key, key, false, false};
  };
  rule.judge = [](const RuleCall& call, const Counts& counts) -> Verdict {
    const double cap = params_as<RuleConstants>(call.params).cap;
    if (counts.overflow) return {Verdict::kExact, call.facts.k, false};
    if (counts.lo <= most(call.facts, cap)) return {Verdict::kTake, counts.lo};
    return {Verdict::kTake, call.facts.k};
  };
  task.kind = SelectKind::kThreshold;
  task.rule = rule;
  task.capacity = std::max(most(task.facts, params_.cap), task.facts.k);
}

void None::choose(const Shape3&, SegmentTask& task) const {
  task.kind = SelectKind::kThreshold;
  task.rule = take_all_rule();
  task.capacity = task.facts.n;
}

}  // namespace sluice
