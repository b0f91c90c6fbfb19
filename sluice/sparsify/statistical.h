#pragma once

#include <cmath>

#include "sluice/core/key.h"
#include "sluice/sparsify/sparsifier.h"

// What the rules share that fit a distribution to a histogram.

namespace sluice {

SLUICE_HD inline Bracket nothing() { return {kInfKey, kInfKey, false, false}; }
SLUICE_HD inline Bracket exactly() { return {0, 0, false, true}; }

// Everything above t, a finite positive number; otherwise exact selection.
SLUICE_HD inline Bracket above(double t) {
  if (!std::isfinite(t) || t < 0) return exactly();
  const std::uint32_t key = max_of(above_key(t), 1U);
  return {key, key, false, false};
}

// Takes what passed if it is between few * k and many * k, else exactly k.
SLUICE_HD inline Verdict within(const RuleCall& call, const Counts& counts,
                                double few, double many) {
  const auto k = static_cast<double>(call.facts.k);
  const auto got = static_cast<double>(counts.lo);
  if (counts.overflow) return {Verdict::kExact, call.facts.k};
  if (got > max_of(many * k, 1.0)) return {Verdict::kTake, call.facts.k};
  if (got < few * k && !counts.all) return {Verdict::kExact, call.facts.k};
  return {Verdict::kTake, counts.lo};
}

inline Param sample_param(std::int64_t& sample) {
  return {"sample", &sample,
          "elements that the statistics look at; 0: all of them", 0};
}

// What the rules share that look at `sample` elements and keep no state.
template <class Params>
struct HistogramRule {
  static constexpr std::uint32_t kRounds = 1;
  SLUICE_HD static Query ask(const RuleCall& call) {
    const auto sample = params_as<Params>(call.params).sample;
    Query query;
    query.sample =
        sample == 0 ? call.facts.n : static_cast<std::uint64_t>(sample);
    query.histogram = true;
    query.sums = true;
    return query;
  }
  SLUICE_HD static void observe(const RuleCall&, const Outcome&) {}
};

// A segment that such a rule selects from; it sends at most `most` * k.
inline void plan_statistical(SegmentTask& task, const Rule& rule, double most) {
  const double limit = std::ceil(most * static_cast<double>(task.facts.k)) + 1;
  plan_threshold(task, rule,
                 limit < static_cast<double>(task.facts.n)
                     ? static_cast<std::size_t>(limit)
                     : task.facts.n);
}

}  // namespace sluice
