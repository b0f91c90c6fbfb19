#pragma once

#include <algorithm>
#include <span>

#include "sluice/comm/communicator.h"

// Patterns of messages that the algorithms share.

namespace sluice {

// Calls f(peer) for every other rank, nearest first upwards, so that not all
// ranks talk to rank 0 at once.
template <class F>
void for_others(const Communicator& comm, F&& f) {
  for (std::size_t d = 1; d < comm.size(); ++d) {
    f((comm.rank() + d) % comm.size());
  }
}

inline void send_to_others(Communicator& comm, std::uint32_t phase,
                           Frame& frame) {
  for_others(comm, [&](std::size_t peer) { comm.send(peer, phase, frame); });
}

// A frame of its own for these bytes.
inline Frame frame_of(Communicator& comm, std::span<const std::byte> bytes) {
  Frame frame = comm.make_frame(bytes.size());
  std::copy(bytes.begin(), bytes.end(), frame.payload().begin());
  return frame;
}

// A call of its own: everybody's bytes, by rank, on rank 0; nothing on the
// others.
std::vector<Bytes> gather_at_first(Communicator& comm, std::string_view what,
                                   std::uint64_t step,
                                   std::span<const std::byte> mine);

// A call of its own: a rank whose bytes are not `mine`; one's own if there is
// none.
std::size_t rank_that_differs(Communicator& comm, std::string_view what,
                              std::uint64_t step,
                              std::span<const std::byte> mine);

// Sends the frame of `root` to all, down a binomial tree; returns it.
Frame broadcast(Communicator& comm, std::size_t root, std::uint32_t phase,
                Frame frame);

// Ranks folded to a power of two: even ranks below 2 * rest are passive and
// leave their part to the rank above them.
struct Fold {
  Fold(std::size_t rank, std::size_t size);

  bool passive() const { return rank < 2 * rest && rank % 2 == 0; }
  bool proxy() const { return is_proxy(rank); }
  bool is_proxy(std::size_t r) const { return r < 2 * rest && r % 2 == 1; }
  std::size_t partner() const { return passive() ? rank + 1 : rank - 1; }
  // Among the active ranks, and back.
  std::size_t virtual_rank() const {
    return rank < 2 * rest ? rank / 2 : rank - rest;
  }
  std::size_t real_rank(std::size_t v) const {
    return v < rest ? 2 * v + 1 : v + rest;
  }

  std::size_t rank;
  std::size_t power = 1;  // active ranks
  std::size_t rest = 0;   // folded pairs
};

}  // namespace sluice
