#include "sluice/collective/cltk.h"

#include "sluice/collective/exchange.h"
#include "sluice/collective/ring.h"
#include "sluice/core/error.h"

namespace sluice {

void Cltk::run(Communicator& comm, const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kIndices = 0;
  constexpr std::uint32_t kValues = 1;
  require(mine.rest.size() == mine.n, "[cltk] needs the residual of all ",
          mine.n, " elements to deliver what was not selected, got ",
          mine.rest.size());
  const std::size_t leader = mine.step % comm.size();
  const bool leads = comm.rank() == leader;
  const Bytes told = broadcast(
      comm, leader, kIndices,
      leads ? encode_indices(mine.selected.indices, mine.n) : Bytes{});
  out.sum.lists.resize(1);
  Entries& have = out.sum.lists[0];
  decode_from(comm, leader, told, mine.n, have);
  // What this rank has there: what it selected, or what stayed behind; both
  // parts where a rounded value left a remainder.
  Entries extra;  // delivered although it was not selected
  std::size_t at = 0;
  for (std::size_t i = 0; i < have.size(); ++i) {
    const std::uint32_t j = have.indices[i];
    while (at < mine.selected.size() && mine.selected.indices[at] < j) ++at;
    const bool selected =
        at < mine.selected.size() && mine.selected.indices[at] == j;
    have.values[i] =
        selected ? mine.selected.values[at] + mine.rest[j] : mine.rest[j];
    if (mine.rest[j] != 0) extra.add(j, -mine.rest[j]);
  }
  out.returned.lists.resize(1);
  merge(extra, outside(mine.selected, have.indices), out.returned.lists[0]);
  ring_sum(comm, have.values, kValues);
}

}  // namespace sluice
