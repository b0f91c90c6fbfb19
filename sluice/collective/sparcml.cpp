#include "sluice/collective/sparcml.h"

#include "sluice/collective/exchange.h"

namespace sluice {

void SparcmlRd::run(Communicator& comm, const Contribution& mine,
                    std::span<float> sum, Entries&) {
  constexpr std::uint32_t kFold = 0;
  constexpr std::uint32_t kUnfold = 1;
  constexpr std::uint32_t kRounds = 2;
  const Fold fold(comm.rank(), comm.size());
  const std::uint64_t n = mine.n;
  Entries list = mine.selected;
  if (fold.passive()) {
    comm.send(fold.partner(), kFold, encode(list, n, mine.values));
    list = receive_entries(comm, fold.partner(), kUnfold, n);
  } else {
    if (fold.proxy()) {
      list = merged(receive_entries(comm, fold.partner(), kFold, n), list);
    }
    for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
      const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
      const auto phase = kRounds + static_cast<std::uint32_t>(bit);
      comm.send(peer, phase, encode(list, n));
      const Entries other = receive_entries(comm, peer, phase, n);
      // The lower rank's first on both sides, so that both round alike.
      list = comm.rank() < peer ? merged(list, other) : merged(other, list);
    }
    if (fold.proxy()) comm.send(fold.partner(), kUnfold, encode(list, n));
  }
  add_to(list, sum);
}

void SparcmlSplit::run(Communicator& comm, const Contribution& mine,
                       std::span<float> sum, Entries&) {
  constexpr std::uint32_t kPush = 0;
  constexpr std::uint32_t kPull = 1;
  const std::uint64_t n = mine.n;
  const std::size_t size = comm.size();
  const auto begin = [&](std::size_t r) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(n) * r /
                                      size);
  };
  const auto width = [&](std::size_t r) { return begin(r + 1) - begin(r); };
  for_others(comm, [&](std::size_t peer) {
    comm.send(peer, kPush,
              encode(slice(mine.selected, begin(peer), begin(peer + 1)),
                     width(peer), mine.values));
  });
  const std::size_t me = comm.rank();
  std::vector<Entries> parts(size);
  parts[me] = slice(mine.selected, begin(me), begin(me + 1));
  for_others(comm, [&](std::size_t peer) {
    parts[peer] = receive_entries(comm, peer, kPush, width(me));
  });
  Entries whole;
  for (const Entries& part : parts) whole = merged(whole, part);
  send_to_others(comm, kPull, encode(whole, width(me)));
  parts[me] = std::move(whole);
  for_others(comm, [&](std::size_t peer) {
    parts[peer] = receive_entries(comm, peer, kPull, width(peer));
  });
  for (std::size_t r = 0; r < size; ++r) {
    add_to(parts[r], sum.subspan(begin(r), width(r)));
  }
}

}  // namespace sluice
