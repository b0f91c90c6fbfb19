#include "sluice/collective/balanced.h"

#include "sluice/collective/exchange.h"
#include "sluice/core/hash.h"

namespace sluice {
namespace {

constexpr std::uint32_t kPush = 0;
constexpr std::uint32_t kPull = 1;

void exchange_directly(Communicator& comm, const Contribution& mine,
                       std::span<float> sum) {
  const std::size_t peer = 1 - comm.rank();
  comm.send(peer, kPush, encode(mine.selected, mine.n, mine.values));
  const Entries other = receive_entries(comm, peer, kPush, mine.n);
  add_to(comm.rank() == 0 ? mine.selected : other, sum);
  add_to(comm.rank() == 0 ? other : mine.selected, sum);
}

}  // namespace

std::uint64_t OwnerMap::turn(std::uint64_t row) {
  // Part of the wire: all ranks must agree on it.
  return mix64(row) >> 32;
}

void Balanced::run(Communicator& comm, const Contribution& mine,
                   std::span<float> sum, Entries&) {
  const std::size_t size = comm.size();
  if (size == 2) {
    exchange_directly(comm, mine, sum);
    return;
  }
  const OwnerMap map(mine.n, size);
  std::vector<Entries> lists(size);
  for (std::size_t i = 0; i < mine.selected.size(); ++i) {
    const std::uint32_t j = mine.selected.indices[i];
    lists[map.owner(j)].add(static_cast<std::uint32_t>(map.local(j)),
                            mine.selected.values[i]);
  }
  for_others(comm, [&](std::size_t peer) {
    comm.send(peer, kPush, encode(lists[peer], map.length(), mine.values));
  });
  const std::size_t me = comm.rank();
  for_others(comm, [&](std::size_t peer) {
    lists[peer] = receive_entries(comm, peer, kPush, map.length());
  });
  Entries whole;
  for (const Entries& list : lists) whole = merged(whole, list);
  send_to_others(comm, kPull, encode(whole, map.length()));
  lists[me] = std::move(whole);
  for_others(comm, [&](std::size_t peer) {
    lists[peer] = receive_entries(comm, peer, kPull, map.length());
    for (const std::uint32_t local : lists[peer].indices) {
      if (map.index(peer, local) >= mine.n) {
        comm.reject(peer, "an index beyond the end");
      }
    }
  });
  for (std::size_t owner = 0; owner < size; ++owner) {
    const Entries& list = lists[owner];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::uint64_t j = map.index(owner, list.indices[i]);
      if (j < mine.n) sum[j] += list.values[i];
    }
  }
}

}  // namespace sluice
