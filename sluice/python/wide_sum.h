#pragma once

#include <cstdint>
#include <span>

#include "sluice/comm/communicator.h"

namespace sluice {

// Replaces the values by their mean over the ranks, the same bits on all ranks:
// each rank adds up one share, in the order of ranks. One call of the
// communicator, of all ranks with equally many values, in `step`. Throws
// CommError.
void mean_of_doubles(Communicator& comm, std::uint64_t step,
                     std::span<double> values);

}  // namespace sluice
