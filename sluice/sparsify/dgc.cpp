#include "sluice/sparsify/dgc.h"

#include <algorithm>
#include <cmath>

#include "sluice/core/hash.h"
#include "sluice/core/key.h"

namespace sluice {
namespace {

// From here on the sample consists of lines, and no more of them.
constexpr std::uint64_t kLarge = 1U << 20;
constexpr std::uint64_t kMostSamples = 1U << 17;

struct State {
  double threshold;  // of this step
};

DgcAttributes attributes(const RuleCall& call) {
  const auto& p = params_as<Dgc::Params>(call.params);
  return dgc_attributes(call.facts.n, call.facts.density, p.sample_ratio);
}

Query ask(const RuleCall& call) {
  if (call.round > 0) return {};  // the threshold only moves
  const DgcAttributes a = attributes(call);
  Query query;
  query.ranks[0] = a.sample_top;
  if (a.samples == call.facts.n) {
    query.sample = call.facts.n;
    return query;
  }
  if (call.facts.n >= kLarge) {
    // An element of every 97th place is a cache line of every sixth: a sample
    // of whole lines has as many elements for a tenth of the reads.
    query.sample = std::min(a.samples, kMostSamples);
    query.ranks[0] = static_cast<std::uint64_t>(
        std::ceil(static_cast<double>(query.sample) * call.facts.density));
    return query;
  }
  query.stride = a.stride;
  query.start = bounded(
      mix64(call.facts.seed, call.facts.tensor, call.facts.step), a.stride);
  return query;
}

Bracket propose(const RuleCall& call, const Answer& answer) {
  auto& state = state_as<State>(call.state);
  if (answer.sampled > 0) {
    state.threshold = static_cast<double>(key_value(answer.keys[0]));
  }
  // Zeros never pass, so that a mostly zero tensor goes to re-selection.
  const std::uint32_t key = std::max(threshold_key(state.threshold), 1U);
  return {key, key, false, false};
}

Verdict judge(const RuleCall& call, const Counts& counts) {
  auto& state = state_as<State>(call.state);
  const auto& p = params_as<Dgc::Params>(call.params);
  const std::uint64_t k = call.facts.k;
  const auto want = static_cast<double>(k);
  const auto got = static_cast<double>(counts.lo);
  const bool sampled = attributes(call).samples < call.facts.n;
  const bool may_adapt = sampled && call.round < p.rounds;
  if (may_adapt && !counts.overflow && got < p.lower * want) {
    state.threshold *= p.lower;
    return {state.threshold > 0 ? Verdict::kAgain : Verdict::kTake, counts.lo};
  }
  if (may_adapt && !p.resample && (counts.overflow || got > p.upper * want)) {
    state.threshold *= p.upper;
    return {Verdict::kAgain, 0};
  }
  if (counts.overflow) return {Verdict::kExact, k};
  return {Verdict::kTake, std::min(counts.lo, k)};
}

}  // namespace

DgcAttributes dgc_attributes(std::uint64_t n, double density,
                             double sample_ratio) {
  DgcAttributes a;
  const auto size = static_cast<double>(n);
  const auto share = static_cast<std::uint64_t>(std::ceil(size * sample_ratio));
  const auto least = static_cast<std::uint64_t>(std::ceil(2 / density));
  const std::uint64_t need = std::max(share, least);
  if (sample_ratio >= 1 || n <= least) {
    a.samples = n;
  } else {
    a.stride = static_cast<std::uint64_t>(
                   std::ceil(size / static_cast<double>(need) / 32)) *
                   32 +
               1;
    a.samples = n / a.stride;
    while (a.samples < need && a.stride > 8) {
      a.stride -= 8;
      a.samples = n / a.stride;
    }
  }
  a.sample_top = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(a.samples) * density));
  a.budget = static_cast<std::uint64_t>(std::ceil(size * density));
  return a;
}

ParamList Dgc::list(Params& p) {
  return {
      {"sample_ratio", &p.sample_ratio, "share of the tensor to sample", 0.01,
       1},
      {"upper", &p.upper, "too many: more than upper * k", 1},
      {"lower", &p.lower, "too few: fewer than lower * k", 0.01, 1},
      {"rounds", &p.rounds, "adaptations at most", 0, kMaxRounds - 1},
      {"resample", &p.resample,
       "too many: take the k largest; otherwise raise the threshold"},
  };
}

std::uint64_t Dgc::count(double product) const {
  return static_cast<std::uint64_t>(std::ceil(product));
}

void Dgc::choose(const Shape3&, SegmentTask& task) const {
  Rule rule;
  rule.ask = &ask;
  rule.propose = &propose;
  rule.judge = &judge;
  rule.observe = [](const RuleCall&, const Outcome&) {};
  rule.params = pack_params(params_);
  task.kind = SelectKind::kThreshold;
  task.rule = rule;
  task.capacity = task.facts.k;
}

}  // namespace sluice
