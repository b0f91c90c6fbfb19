#include "sluice/collective/cltk.h"

#include "sluice/collective/exchange.h"
#include "sluice/core/error.h"

namespace sluice {

void Cltk::run(Communicator& comm, const Contribution& mine,
               std::span<float> sum, Entries& returned) {
  constexpr std::uint32_t kIndices = 0;
  constexpr std::uint32_t kValues = 1;
  constexpr std::uint32_t kSums = 2;
  require(mine.rest.size() == mine.n, "[cltk] needs the residual of all ",
          mine.n, " elements to deliver what was not selected, got ",
          mine.rest.size());
  const std::size_t leader = mine.step % comm.size();
  Entries chosen = mine.selected;
  if (comm.rank() == leader) {
    send_to_others(comm, kIndices, encode(chosen, mine.n));
  } else {
    chosen = receive_entries(comm, leader, kIndices, mine.n);
  }
  // What this rank has there: what it selected, or what stayed behind.
  Entries have;
  std::size_t at = 0;
  for (const std::uint32_t j : chosen.indices) {
    while (at < mine.selected.size() && mine.selected.indices[at] < j) ++at;
    const bool selected =
        at < mine.selected.size() && mine.selected.indices[at] == j;
    // Both parts where a rounded value left a remainder.
    have.add(j,
             selected ? mine.selected.values[at] + mine.rest[j] : mine.rest[j]);
    if (mine.rest[j] != 0) returned.add(j, -mine.rest[j]);
  }
  returned = merged(returned, outside(mine.selected, chosen.indices));
  // The leader sums in rank order and tells the result.
  Entries total;
  if (comm.rank() == leader) {
    std::vector<Entries> lists(comm.size());
    for_others(comm, [&](std::size_t peer) {
      lists[peer] = receive_entries(comm, peer, kValues, mine.n);
    });
    lists[leader] = have;
    for (const Entries& list : lists) total = merged(total, list);
    send_to_others(comm, kSums, encode(total, mine.n));
  } else {
    comm.send(leader, kValues, encode(have, mine.n));
    total = receive_entries(comm, leader, kSums, mine.n);
  }
  add_to(total, sum);
}

}  // namespace sluice
