#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

// A part of what an old rank kept, for a new one.
struct Inherited {
  std::size_t rank = 0;  // the old one
  double factor = 1;
};

// What new rank `rank` of `ranks` takes over from `old_ranks` ranks, so that
// the mean over the ranks, the update still owed to the weights, stays the
// same: (1 / P) * sum of r = (1 / P') * sum of r'. Nobody else's is split if
// ranks leave; nobody else's is added if ranks join.
std::vector<Inherited> inherit(std::size_t old_ranks, std::size_t rank,
                               std::size_t ranks);

}  // namespace sluice
