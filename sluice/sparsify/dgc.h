#pragma once

#include <cmath>

#include "sluice/core/hash.h"
#include "sluice/core/key.h"
#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// How DGC samples a tensor.
struct DgcAttributes {
  std::uint64_t stride = 1;
  std::uint64_t samples = 0;
  std::uint64_t sample_top = 0;  // rank of the threshold in the sample
  std::uint64_t budget = 0;
};
SLUICE_HD inline DgcAttributes dgc_attributes(std::uint64_t n, double density,
                                              double sample_ratio) {
  DgcAttributes a;
  const auto size = static_cast<double>(n);
  const auto share = static_cast<std::uint64_t>(std::ceil(size * sample_ratio));
  const auto least = static_cast<std::uint64_t>(std::ceil(2 / density));
  const std::uint64_t need = max_of(share, least);
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

struct DgcParams {
  double sample_ratio = 0.01;
  double upper = 1.3;
  double lower = 0.8;
  std::int64_t rounds = 10;
  bool resample = true;
};

// One round and `rounds` adaptations.
struct DgcRule {
  static constexpr std::uint32_t kRounds = kMaxRounds;

  SLUICE_HD static Query ask(const RuleCall& call) {
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
      query.sample = min_of(a.samples, kMostSamples);
      query.ranks[0] = static_cast<std::uint64_t>(
          std::ceil(static_cast<double>(query.sample) * call.facts.density));
      return query;
    }
    query.stride = a.stride;
    query.start = bounded(
        mix64(call.facts.seed, call.facts.tensor, call.facts.step), a.stride);
    return query;
  }

  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer& answer) {
    auto& state = state_as<State>(call.state);
    if (answer.sampled > 0) {
      state.threshold = static_cast<double>(key_value(answer.keys[0]));
    }
    // Zeros never pass, so that a mostly zero tensor goes to re-selection.
    const std::uint32_t key = max_of(threshold_key(state.threshold), 1U);
    return {key, key, false, false};
  }

  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    auto& state = state_as<State>(call.state);
    const auto& p = params_as<DgcParams>(call.params);
    const std::uint64_t k = call.facts.k;
    const auto want = static_cast<double>(k);
    const auto got = static_cast<double>(counts.lo);
    const bool sampled = attributes(call).samples < call.facts.n;
    const bool may_adapt = sampled && call.round < p.rounds;
    if (may_adapt && !counts.overflow && got < p.lower * want) {
      state.threshold *= p.lower;
      return {state.threshold > 0 ? Verdict::kAgain : Verdict::kTake,
              counts.lo};
    }
    if (may_adapt && !p.resample && (counts.overflow || got > p.upper * want)) {
      state.threshold *= p.upper;
      return {Verdict::kAgain, 0};
    }
    if (counts.overflow) return {Verdict::kExact, k};
    return {Verdict::kTake, min_of(counts.lo, k)};
  }
  SLUICE_HD static void observe(const RuleCall&, const Outcome&) {}

 private:
  // From here on the sample consists of lines, and no more of them.
  static constexpr std::uint64_t kLarge = 1U << 20;
  static constexpr std::uint64_t kMostSamples = 1U << 17;

  struct State {
    double threshold;  // of this step
  };

  SLUICE_HD static DgcAttributes attributes(const RuleCall& call) {
    const auto& p = params_as<DgcParams>(call.params);
    return dgc_attributes(call.facts.n, call.facts.density, p.sample_ratio);
  }
};

// Deep Gradient Compression (ICLR'18), after its authors' implementation: the
// threshold comes from a strided sample; too many are cut to the k largest, too
// few lower the threshold. From 2^20 elements on the sample consists of whole
// cache lines, at most 2^17 elements of them.
class Dgc final : public SparsifierOf<Dgc, DgcParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "dgc";
  static constexpr std::string_view kSummary =
      "threshold from a strided sample, adapted, then re-selected";
  using RuleType = DgcRule;
  static ParamList list(Params& p);
  bool estimates() const override { return true; }

 private:
  std::uint64_t count(double product) const override;
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
