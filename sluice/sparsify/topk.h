#pragma once

#include <cmath>
#include <cstdint>

#include "sluice/backend/exact.h"
#include "sluice/core/key.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// What exact selection remembers of a segment; zero bytes are a cold start.
struct TopkState {
  std::uint32_t predicted = 0;
  std::uint32_t margin = 0;  // in keys, around the prediction
  std::uint16_t warm = 0;
  std::uint16_t tied = 0;  // the cut was one of many equal keys, or 0
  double ratio = 0;        // of the cut to a quantile of the sample, smoothed
  double quantile = 0;     // of this step's sample
};

// Exact top-k on a state of the caller's, for rules that need it in some steps.
// At most two brackets, then exact selection.
//
// The cut is bracketed around a multiple of a quantile of a small sample, a
// little inside the tail, that earlier steps tell; cold, by the order
// statistics of a larger sample, which need not be large if the cut was one of
// many equal keys. The stream pass verifies the bracket by counting, so the
// result is exact either way.
struct TopkSearch {
  SLUICE_HD static Query ask(const RuleCall& call, const TopkState& state) {
    const SegmentFacts& facts = call.facts;
    Query query;
    if (facts.n <= kTiny) {
      query.sample = facts.n;
      query.ranks[0] = facts.k;
      return query;
    }
    if (is_warm(call, state)) {
      query.sample = warm_sample(facts);
      query.rough = true;  // by much less than a quantile of it is noisy
    } else {
      query = cold_query(call, state);
    }
    query.ranks[2] = quantile_rank(facts, query.sample);
    return query;
  }

  SLUICE_HD static Bracket propose(const RuleCall& call, TopkState& state,
                                   const Answer& answer) {
    const SegmentFacts& facts = call.facts;
    if (facts.n <= kTiny) {
      return {answer.keys[0], answer.keys[0] + 1, true};
    }
    state.quantile = static_cast<double>(key_value(answer.keys[2]));
    if (is_warm(call, state)) {
      const double moved = state.ratio * state.quantile;
      const std::uint32_t center = min_of(threshold_key(moved), kInfKey - 1);
      state.predicted = center;
      const std::uint32_t lo =
          center > state.margin ? center - state.margin : 0;
      // Half of it above: what is taken between the cut and hi is cleared one
      // by one, and that too many reach hi is easily put right.
      return {lo, min_of(center + state.margin / 2, kInfKey)};
    }
    if (state.warm == 0) {
      // After a failed warm bracket both stay, so that observe() learns from
      // it.
      state.margin = max_of(noise(facts) * kFirstMargin, least_margin(facts));
      state.predicted = 0;
    }
    return exact_bracket(cold_query(call, state), answer);
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    const std::uint64_t k = call.facts.k;
    const bool enough = counts.lo >= k || counts.all;
    if (enough && !counts.overflow) return {Verdict::kTake, k};
    return {call.round == 0 ? Verdict::kAgain : Verdict::kExact, k};
  }

  SLUICE_HD static void observe(const RuleCall& call, TopkState& state,
                                const Outcome& outcome) {
    const bool scarce = outcome.selected < call.facts.k;
    const bool usable = outcome.selected > 0 && !scarce && !outcome.tied &&
                        state.quantile > 0 && std::isfinite(state.quantile) &&
                        outcome.threshold_key < kInfKey;
    bool steady = false;
    if (state.warm != 0 && usable && state.predicted > 0) {
      const std::uint32_t miss = outcome.threshold_key > state.predicted
                                     ? outcome.threshold_key - state.predicted
                                     : state.predicted - outcome.threshold_key;
      steady = miss < state.margin / 2;
      // Widen at once, narrow slowly: a failed bracket costs a second pass, and
      // of the many of a bucket one is enough.
      const std::uint32_t wanted =
          max_of(min_of(miss, kMaxMargin) * min_of(1 + noise(call.facts), 3U),
                 state.margin - state.margin / 8);
      state.margin = clamp_to(wanted, least_margin(call.facts), kMaxMargin);
    }
    if (usable) {
      const double ratio =
          static_cast<double>(key_value(outcome.threshold_key)) /
          state.quantile;
      // The quantile is noisy and shapes change slowly, unless they do not.
      state.ratio = steady ? (state.ratio + ratio) / 2 : ratio;
    }
    state.warm = usable ? 1 : 0;
    state.tied = outcome.tied || scarce ? 1 : 0;
  }

 private:
  // Up to here the whole segment is looked at, and the cut is known beforehand.
  static constexpr std::uint64_t kTiny = 8192;
  static constexpr std::uint64_t kLarge = std::uint64_t{1} << 22;
  // Keys per octave are 2^23. The first margin is 3 %.
  static constexpr std::uint32_t kFirstMargin = 1U << 18;
  static constexpr std::uint32_t kMinMargin = 1U << 15;
  static constexpr std::uint32_t kMaxMargin = 1U << 22;

  SLUICE_HD static std::uint64_t warm_sample(const SegmentFacts& facts) {
    return clamp_to<std::uint64_t>(facts.n / facts.cheap_share, 1024,
                                   facts.cheap_sample);
  }

  // How wide a bracket must be, for how few are looked at: 1, 2 or 3.
  SLUICE_HD static std::uint32_t noise(const SegmentFacts& facts) {
    const std::uint64_t sample = warm_sample(facts);
    return sample >= 1U << 15 ? 1 : sample >= 1U << 12 ? 2 : 3;
  }

  // Of a large segment every entry in the bracket costs time, so that it may
  // fail now and then; of a small one few do, and there may be hundreds of them
  // in a bucket, of which none is to fail. A quantile of s elements, of a
  // normal distribution, is off by about its 1 / sqrt(s)-th part: five times
  // that.
  SLUICE_HD static std::uint32_t least_margin(const SegmentFacts& facts) {
    if (facts.n >= kLarge) return kMinMargin;
    const double off = 5 / std::sqrt(static_cast<double>(warm_sample(facts)));
    constexpr double kKeysPerShare = 1.5 * (1U << 23);
    return clamp_to(static_cast<std::uint32_t>(off * kKeysPerShare), kMinMargin,
                    kMaxMargin);
  }

  SLUICE_HD static Query cold_query(const RuleCall& call,
                                    const TopkState& state) {
    const SegmentFacts& facts = call.facts;
    return state.tied != 0 && call.round == 0
               ? exact_query(facts.n, facts.k, warm_sample(facts))
               : exact_query(facts.n, facts.k);
  }

  // The cut moves with the tail, and a quantile of the tail itself is noisy:
  // take one at four times the density, where a sample still has enough
  // entries.
  SLUICE_HD static std::uint64_t quantile_rank(const SegmentFacts& facts,
                                               std::uint64_t sample) {
    const double share = clamp_to(4 * facts.density, 0.02, 0.5);
    const std::uint64_t looked_at = 2 * sample >= facts.n ? facts.n : sample;
    return static_cast<std::uint64_t>(share * static_cast<double>(looked_at));
  }

  SLUICE_HD static bool is_warm(const RuleCall& call, const TopkState& state) {
    return state.warm != 0 && call.round == 0;
  }
};

// The k largest; two rounds.
struct TopkRule {
  static constexpr std::uint32_t kRounds = 2;
  SLUICE_HD static Query ask(const RuleCall& call) {
    return TopkSearch::ask(call, state_as<TopkState>(call.state));
  }
  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    return TopkSearch::propose(call, state_as<TopkState>(call.state), answer);
  }
  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    return TopkSearch::judge(call, counts);
  }
  SLUICE_HD static void observe(const RuleCall& call, const Outcome& outcome) {
    TopkSearch::observe(call, state_as<TopkState>(call.state), outcome);
  }
};

// The k largest magnitudes that are not 0; ties to the lower index.
class Topk final : public SparsifierOf<Topk> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "topk";
  static constexpr std::string_view kSummary =
      "exactly the k largest magnitudes of each tensor";
  using RuleType = TopkRule;

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
