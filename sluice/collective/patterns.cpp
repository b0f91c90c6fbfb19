#include "sluice/collective/patterns.h"

#include <bit>

namespace sluice {

std::vector<Bytes> gather_at_first(Communicator& comm, std::string_view what,
                                   std::uint64_t step,
                                   std::span<const std::byte> mine) {
  comm.begin(what, step);
  if (comm.rank() != 0) {
    comm.send(0, 0, mine);
    return {};
  }
  std::vector<Bytes> all = {Bytes(mine.begin(), mine.end())};
  for (std::size_t r = 1; r < comm.size(); ++r) {
    const auto bytes = comm.receive(r, 0);
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

std::size_t rank_that_differs(Communicator& comm, std::string_view what,
                              std::uint64_t step,
                              std::span<const std::byte> mine) {
  comm.begin(what, step);
  Frame frame = frame_of(comm, mine);
  send_to_others(comm, 0, frame);
  std::size_t other = comm.rank();
  for_others(comm, [&](std::size_t peer) {
    if (!std::ranges::equal(comm.receive(peer, 0), mine)) other = peer;
  });
  return other;
}

Frame broadcast(Communicator& comm, std::size_t root, std::uint32_t phase,
                Frame frame) {
  const std::size_t size = comm.size();
  const std::size_t place = (comm.rank() + size - root) % size;
  std::size_t down = std::bit_ceil(size);
  if (place != 0) {
    down = place & (~place + 1);  // its lowest bit: from the rank without it
    frame = comm.receive_frame((root + place - down) % size, phase);
  }
  for (down /= 2; down > 0; down /= 2) {
    if (place + down < size) {
      comm.send((root + place + down) % size, phase, frame);
    }
  }
  return frame;
}

Fold::Fold(std::size_t r, std::size_t size)
    : rank(r), power(std::bit_floor(size)), rest(size - std::bit_floor(size)) {}

}  // namespace sluice
