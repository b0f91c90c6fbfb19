#pragma once

#include <cstdint>

#include "sluice/backend/rule.h"
#include "sluice/core/hash.h"

namespace sluice {

// Which elements a query looks at: all, every stride-th, or whole lines, one
// per stratum, jittered inside it. In fixed point, since two 128-bit divisions
// per line cost more than the line.
struct Sample {
  enum Kind : std::uint32_t { kNone, kScan, kStrided, kLines };
  Kind kind = kNone;
  std::uint64_t count = 0;  // elements
  std::uint64_t start = 0;
  std::uint64_t stride = 1;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t room = 1;
  static constexpr std::uint64_t kLine = 16;
  static constexpr unsigned kFraction = 20;

  Sample() = default;
  SLUICE_HD Sample(const Query& query, const SegmentFacts& facts) {
    if (query.stride > 0) {
      kind = kStrided;
      start = query.start;
      stride = query.stride;
      count = start < facts.n ? (facts.n - start + stride - 1) / stride : 0;
    } else if (query.sample * 2 >= facts.n) {
      kind = kScan;
      count = query.sample == 0 ? 0 : facts.n;
    } else if (query.sample >= kLine) {
      kind = kLines;
      const std::uint64_t lines = query.sample / kLine;
      count = lines * kLine;
      seed = mix64(facts.seed ^ facts.tensor, facts.step);
      step = (facts.n << kFraction) / lines;
      room = (step >> kFraction) >= kLine ? (step >> kFraction) - kLine + 1 : 1;
    }
  }

  // The first element of a line.
  SLUICE_HD std::uint64_t line(std::uint64_t j) const {
    return ((j * step) >> kFraction) + bounded(mix64(seed + j), room);
  }
  SLUICE_HD std::uint64_t at(std::uint64_t j) const {
    if (kind == kScan) return j;
    if (kind == kStrided) return start + j * stride;
    return line(j / kLine) + j % kLine;
  }
};

}  // namespace sluice
