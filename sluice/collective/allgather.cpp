#include "sluice/collective/allgather.h"

#include "sluice/collective/exchange.h"

namespace sluice {

void exchange_directly(Communicator& comm, const Contribution& mine,
                       Pieces& sum) {
  constexpr std::uint32_t kLists = 0;
  send_to_others(comm, kLists,
                 encode_filled(mine.selected, mine.n, mine.values));
  sum.lists.resize(comm.size());
  for_others(comm, [&](std::size_t peer) {
    receive_entries(comm, peer, kLists, mine.n, sum.lists[peer]);
  });
  sum.lists[comm.rank()] = mine.selected;
}

void Allgather::run(Communicator& comm, const Contribution& mine,
                    Delivery& out) {
  exchange_directly(comm, mine, out.sum);
}

}  // namespace sluice
