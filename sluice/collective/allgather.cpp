#include "sluice/collective/allgather.h"

#include "sluice/collective/exchange.h"

namespace sluice {

void Allgather::run(Communicator& comm, const Contribution& mine,
                    std::span<float> sum, Entries&) {
  send_to_others(comm, 0, encode(mine.selected, mine.n, mine.values));
  std::vector<Entries> lists(comm.size());
  for_others(comm, [&](std::size_t peer) {
    lists[peer] = receive_entries(comm, peer, 0, mine.n);
  });
  lists[comm.rank()] = mine.selected;
  // Nothing is added before every list has passed its checks.
  for (const Entries& list : lists) add_to(list, sum);
}

}  // namespace sluice
