#pragma once

#include <span>

#include "sluice/comm/communicator.h"

namespace sluice {

// All-reduce by a ring, reduce-scatter then all-gather: 2 (P - 1) / P of the
// values received per rank, for two ranks or more. Values travel in segments,
// each sent on as soon as it is summed, so that adding and sending overlap.
// Phases count from `phase`.
//
// `out` gets the sum of `in` over all ranks, the same bits everywhere; it may
// be the same memory, or of the same size elsewhere.
void ring_sum(Communicator& comm, std::span<const float> in,
              std::span<float> out, std::uint32_t phase);

// The same with half the bytes: every partial sum is rounded to bf16 before it
// travels. `remainders` are set to what this rank rounded off, so that they and
// the result together are the exact sum.
void ring_sum_bf16(Communicator& comm, std::span<const float> in,
                   std::span<float> out, std::span<float> remainders,
                   std::uint32_t phase);

}  // namespace sluice
