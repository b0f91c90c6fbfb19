#pragma once

#include <span>

#include "sluice/comm/communicator.h"

namespace sluice {

// All-reduce by a ring, reduce-scatter then all-gather: 2 (P - 1) / P of the
// values received per rank. Values travel in segments, each sent on as soon as
// it is summed, so that adding and sending overlap. Phases count from `phase`.
//
// Replaces `values` by their sum over all ranks: the same bits everywhere.
void ring_sum(Communicator& comm, std::span<float> values, std::uint32_t phase);

// The same with half the bytes: every partial sum is rounded to bf16 before it
// travels. What this rank rounded off is added to `remainders`, so that they
// and the result together are the exact sum.
void ring_sum_bf16(Communicator& comm, std::span<float> values,
                   std::span<float> remainders, std::uint32_t phase);

}  // namespace sluice
