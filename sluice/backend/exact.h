#pragma once

#include <cmath>
#include <cstdint>

#include "sluice/backend/rule.h"
#include "sluice/core/key.h"

// Exact selection from a cold start: a bracket of order statistics of a sample,
// which the stream pass then verifies.

namespace sluice {

// How many of n elements to look at to find the cut of any number of them.
SLUICE_HD inline std::uint64_t exact_sample(std::uint64_t n) {
  return clamp_to<std::uint64_t>(n / 16, 1U << 16, 1U << 18);
}

// A sample of n elements to find the cut of the k largest, and the ranks around
// it.
SLUICE_HD inline Query exact_query(std::uint64_t n, std::uint64_t k,
                                   std::uint64_t sample) {
  Query query;
  query.sample = sample;
  const auto looked_at =
      static_cast<double>(query.sample * 2 >= n ? n : query.sample);
  // Neighbours are correlated, so the standard deviation is doubled.
  const double expected =
      looked_at * static_cast<double>(k) / static_cast<double>(n);
  const double slack = 4 * 2 * std::sqrt(expected) + 4;
  query.ranks[0] = static_cast<std::uint64_t>(expected + slack);
  // Half of it above: that too many reach hi is easily put right, that too few
  // reach lo costs another pass.
  query.ranks[1] = expected > slack / 2 + 1
                       ? static_cast<std::uint64_t>(expected - slack / 2)
                       : 0;
  return query;
}

SLUICE_HD inline Query exact_query(std::uint64_t n, std::uint64_t k) {
  return exact_query(n, k, exact_sample(n));
}

SLUICE_HD inline Bracket exact_bracket(const Query& query,
                                       const Answer& answer) {
  const std::uint32_t lo = answer.keys[0];
  const std::uint32_t hi = query.ranks[1] > 0 ? answer.keys[1] : kInfKey;
  const auto top = magnitude_key(static_cast<float>(answer.moments.max_abs));
  // Ties around the cut: everything above them goes, and the first of them.
  if (hi <= lo + 1 || lo == 0 || lo >= top) return {lo, lo + 1, true, false};
  return {lo, hi, false, false};
}

}  // namespace sluice
