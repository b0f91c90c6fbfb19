#pragma once

#include <algorithm>
#include <cstddef>

#include "sluice/cost/model.h"

// What patterns of messages cost that several collectives are made of, with the
// work at both ends. For two ranks or more.

namespace sluice {

// A message of so many bytes.
inline Cost message_cost(double bytes, const Network& network) {
  return {network.alpha + bytes * network.beta, bytes};
}
inline Cost operator*(double times, const Cost& cost) {
  return {times * cost.seconds, times * cost.bytes};
}
inline Cost work_cost(double seconds) { return {seconds, 0}; }

// Elements of a ring's messages, where a rank's share is so many: short enough
// for adding and sending to overlap, long enough to make a message's cost
// small.
constexpr std::size_t ring_segment(std::size_t share) {
  return std::clamp(share / 8, std::size_t{1} << 14, std::size_t{1} << 18);
}

// How many of a machine's ranks sum a part of so many elements that its first
// needs the sum of. Few go to that one directly, which takes half as many
// messages: at 1 us and 10 GB/s 8 ranks break even at 3300 elements.
constexpr std::size_t machine_sum_owners(std::size_t elements,
                                         std::size_t ranks) {
  return elements <= std::size_t{1} << 12 ? 1 : ranks;
}
// What that sum takes of the first rank.
Cost machine_sum_cost(double elements, double ranks, const Network& network,
                      const Rates& rates);
// What it takes to give so many elements back to the others, down a tree.
Cost machine_copy_cost(double elements, double ranks, const Network& network);

// A ring sum of `elements`, in segments, at so many bytes each on the wire.
Cost ring_cost(double elements, double element_bytes, double ranks,
               const Network& network, const Rates& rates);

// Everybody's list to everybody.
Cost direct_cost(const Workload& load, const Network& network,
                 const Rates& rates);

// Lists to the owners of their indices, who sum them and send `pulled` indices
// in all to everybody. `most`: the fullest owner's share over the average.
Cost owned_cost(const Workload& load, double pulled, double most,
                const Network& network, const Rates& rates);

// Everybody's bytes to one rank, and its answer to everybody.
Cost star_cost(double ranks, double bytes, const Network& network);

// Ranks that meet in pairs: how often all of them do so, and whether those
// beyond a power of two are folded in first and told the result at the end.
struct Doubling {
  explicit Doubling(double ranks);

  double rounds = 0;
  bool folded = false;
};

}  // namespace sluice
