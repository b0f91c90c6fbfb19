#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "sluice/plan/timeline.h"

// Which neighbours travel together, by rules of papers on one model: gradients
// as backward makes them, groups of neighbours, one exchange at a time. The
// best there is: plan/merge_exact.h.

namespace sluice {

// Gradients in the order in which backward makes them.
struct Chain {
  std::vector<double> elements;
  std::vector<double> backward;  // seconds from the one before
  double tail = 0;               // seconds of backward behind the last of them
  // Exchange of what travels when all of backward is done, behind all groups.
  double last = 0;
};

// What a group takes, by its elements.
struct GroupCost {
  double select = 0;
  double exchange = 0;
};
using GroupCosts = std::function<GroupCost(double elements)>;

// Gradients begin to end - 1, and which of several costs they have.
struct Group {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t way = 0;

  friend bool operator==(const Group&, const Group&) = default;
};
using Groups = std::vector<Group>;

Groups each_alone(const Chain& chain);
Groups all_together(const Chain& chain);

// OMGS as published: neighbours merge where waiting costs less than a message.
// The two that come first are never tested, and always merged.
Groups merge_omgs(const Chain& chain, const GroupCosts& cost);

// MG-WFBP: they merge where the link is busy until the next gradient is there,
// or would be for less than `alpha`. Selection is not in its model.
Groups merge_mgwfbp(const Chain& chain, const GroupCosts& cost, double alpha);

// When the last group, and what comes behind it, has been exchanged.
double end_of(const Chain& chain, const Groups& groups,
              std::span<const GroupCosts> ways, bool select_beside);

}  // namespace sluice
