#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/cost/model.h"
#include "sluice/plan/plan.h"

// plan.json of a run: the plan that it began with and, under "later", those
// that it went on with, each with the step that it was the first for:
//
//   {"version": 2, "name": "size=1M", "buckets": [...],
//    "later": [{"step": 20, "why": "...", "network": {"alpha": 5e-5,
//               "beta": 8e-9}, "name": "auto", "buckets": [...]}]}
//
// A file without "later" is a plan like any other.

namespace sluice {

// From which step on a run goes by which plan.
struct Decision {
  std::uint64_t step = 0;          // so many are done before it
  std::string why;                 // for people; may be empty
  std::optional<Network> network;  // that it goes by, if another than before
  Plan plan;
};

// In the order of their steps; the first is of step 0.
using Decisions = std::vector<Decision>;

std::string to_json(const Decisions& decisions,
                    std::span<const std::string> names);

// Throws std::invalid_argument for what plan_from_json() refuses, and for steps
// that do not rise.
Decisions decisions_from_json(std::string_view json,
                              std::span<const std::string> names);

// The one that holds when so many steps are done.
const Decision& decision_at(const Decisions& decisions, std::uint64_t step);

// Of two records of one run, as JSON, the one that goes on from the other;
// `first` if neither does, or `second` is none.
std::string longer_record(const std::string& first, const std::string& second);

}  // namespace sluice
