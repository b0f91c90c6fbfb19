#pragma once

#include "sluice/sparsify/sparsifier.h"

namespace sluice {

// One round.
struct ThresholdRule : TakeAllRule {
  struct Constants {
    std::uint32_t key;
    double cap;
  };
  SLUICE_HD static std::uint64_t most(const SegmentFacts& facts, double cap) {
    if (cap <= 0) return facts.n;
    const double limit = cap * static_cast<double>(facts.k);
    return min_of(facts.n, static_cast<std::uint64_t>(limit));
  }
  SLUICE_HD static Bracket propose(const RuleCall& call, const Answer&) {
    const std::uint32_t key = params_as<Constants>(call.params).key;
    return {key, key, false, false};
  }
  SLUICE_HD static Verdict judge(const RuleCall& call, const Counts& counts) {
    const double cap = params_as<Constants>(call.params).cap;
    if (counts.overflow) return {Verdict::kExact, call.facts.k};
    if (counts.lo <= most(call.facts, cap)) return {Verdict::kTake, counts.lo};
    return {Verdict::kTake, call.facts.k};
  }
};

struct ThresholdParams {
  double value = 0.01;
  double cap = 4;
};

// Everything above a fixed magnitude, but never more than `cap` times the
// budget: then the k largest.
class Threshold final : public SparsifierOf<Threshold, ThresholdParams> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "threshold";
  static constexpr std::string_view kSummary =
      "everything above a fixed magnitude";
  using RuleType = ThresholdRule;
  static ParamList list(Params& p);

 private:
  bool follows_density() const override { return false; }
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

// Everything: the dense baseline through the same path.
class None final : public SparsifierOf<None> {
 public:
  using SparsifierOf::SparsifierOf;
  static constexpr std::string_view kName = "none";
  static constexpr std::string_view kSummary =
      "everything, whatever the density: the dense baseline";

 private:
  void choose(const Shape3& shape, SegmentTask& task) const override;
};

}  // namespace sluice
