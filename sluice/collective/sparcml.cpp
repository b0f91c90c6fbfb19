#include "sluice/collective/sparcml.h"

#include "sluice/collective/exchange.h"

namespace sluice {

void SparcmlRd::run(Communicator& comm, const Contribution& mine,
                    Delivery& out) {
  constexpr std::uint32_t kFold = 0;
  constexpr std::uint32_t kUnfold = 1;
  constexpr std::uint32_t kRounds = 2;
  const Fold fold(comm.rank(), comm.size());
  const std::uint64_t n = mine.n;
  out.sum.lists.resize(1);
  Entries& list = out.sum.lists[0];
  list = mine.selected;
  // The lower rank's first on both sides, so that both round alike.
  const auto add = [&](bool mine_first) {
    merge(mine_first ? list : other_, mine_first ? other_ : list, scratch_);
    std::swap(list, scratch_);
  };
  if (fold.passive()) {
    comm.send(fold.partner(), kFold, encode_filled(list, n, mine.values));
    receive_entries(comm, fold.partner(), kUnfold, n, list);
    return;
  }
  if (fold.proxy()) {
    receive_entries(comm, fold.partner(), kFold, n, other_);
    add(false);
  }
  ValueForm form = fold.proxy() ? ValueForm::kFp32 : mine.values;
  for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
    const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
    const auto phase = kRounds + static_cast<std::uint32_t>(bit);
    comm.send(peer, phase, encode_filled(list, n, form));
    receive_entries(comm, peer, phase, n, other_);
    add(comm.rank() < peer);
    form = ValueForm::kFp32;  // sums from here on
  }
  if (fold.proxy()) comm.send(fold.partner(), kUnfold, encode_filled(list, n));
}

void SparcmlSplit::run(Communicator& comm, const Contribution& mine,
                       Delivery& out) {
  constexpr std::uint32_t kPush = 0;
  constexpr std::uint32_t kPull = 1;
  const std::size_t size = comm.size();
  const auto begin = [&](std::size_t r) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(mine.n) *
                                      r / size);
  };
  const auto width = [&](std::size_t r) { return begin(r + 1) - begin(r); };
  const auto part = [&](std::size_t r) {
    return slice(mine.selected, begin(r), begin(r + 1));
  };
  for_others(comm, [&](std::size_t peer) {
    comm.send(peer, kPush, encode_filled(part(peer), width(peer), mine.values));
  });
  const std::size_t me = comm.rank();
  parts_.resize(size);
  parts_[me] = part(me);
  for_others(comm, [&](std::size_t peer) {
    receive_entries(comm, peer, kPush, width(me), parts_[peer]);
  });
  merge_all(parts_, scratch_);
  send_to_others(comm, kPull, encode_filled(parts_[0], width(me)));
  std::vector<Entries>& lists = out.sum.lists;
  lists.resize(size);
  std::swap(lists[me], parts_[0]);
  for_others(comm, [&](std::size_t peer) {
    receive_entries(comm, peer, kPull, width(peer), lists[peer]);
  });
  for (std::size_t r = 0; r < size; ++r) {
    const auto first = static_cast<std::uint32_t>(begin(r));
    for (std::uint32_t& j : lists[r].indices) j += first;
  }
}

}  // namespace sluice
