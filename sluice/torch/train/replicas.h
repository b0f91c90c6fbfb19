#pragma once

#include "sluice/comm/communicator.h"
#include "sluice/torch/tensors.h"

// What keeps the ranks' copies of a model alike. Calls of all ranks together.

namespace sluice {

// Rank 0's values, on all ranks.
void broadcast_tensors(Communicator& comm, std::uint64_t step,
                       const NamedTensors& tensors);

// Replaces floating-point tensors (the statistics of normalisation) by their
// mean over the ranks, others by rank 0's; the same bits on all ranks.
void average_tensors(Communicator& comm, std::uint64_t step,
                     const NamedTensors& tensors);

// Compares all tensors over the ranks, bit for bit, by their hashes. Throws
// AgreedError, on all ranks, with the rank and the tensor that differ.
void check_replicas(Communicator& comm, std::uint64_t step,
                    const NamedTensors& tensors);

// Of all bits of all tensors.
std::uint64_t hash_tensors(const NamedTensors& tensors);

}  // namespace sluice
