#pragma once

#include <span>

#include "sluice/comm/communicator.h"

// What ranks of one machine do for its first: calls of a communicator of
// theirs, or of a group, between its begin() and the next. Phases count from
// `phase`, 2^28 at most.

namespace sluice {

// The sum of `in` over the ranks in `out` of rank 0, which may be the same
// memory; added in the order of the ranks. Each rank sums a share and gives it
// to rank 0, which receives 2 (P - 1) / P of the values; few values go to rank
// 0 at once.
void sum_at_first(Communicator& comm, std::span<const float> in,
                  std::span<float> out, std::uint32_t phase);

// Rank 0's values on all ranks, down a tree, in segments.
void copy_from_first(Communicator& comm, std::span<float> values,
                     std::uint32_t phase);

}  // namespace sluice
