#include "sluice/collective/gtopk.h"

#include <algorithm>
#include <array>

#include "sluice/collective/exchange.h"
#include "sluice/collective/ranked.h"

namespace sluice {
namespace {

// The k largest of a + b. Each side cutting by its own k would make ranks
// disagree, so the larger one counts. a is the lower rank's on both sides.
Ranked merge_ranked(const Ranked& a, const Ranked& b) {
  const std::uint64_t k = std::max(a.k, b.k);
  return {largest(merged(a.entries, b.entries), k), k};
}

// A rank's own entries of which no share has been cut yet.
void drop_cut(Entries& alive, const Entries& kept) {
  alive = inside(alive, kept.indices);
}

}  // namespace

void Gtopk::run(Communicator& comm, const Contribution& mine, Delivery& out) {
  const Fold fold(comm.rank(), comm.size());
  const std::uint64_t n = mine.n;
  constexpr std::uint32_t kFold = 0;
  constexpr std::uint32_t kUnfold = 1;
  constexpr std::uint32_t kRounds = 2;
  Ranked list = {mine.selected,
                 std::max<std::uint64_t>(mine.k, mine.selected.size())};
  Entries alive = mine.selected;
  if (fold.passive()) {
    send_ranked(comm, fold.partner(), kFold, list, n);
    // The result, then which of mine are in it with my share.
    receive_ranked(comm, fold.partner(), kUnfold, n, list);
    receive_entries(comm, fold.partner(), kUnfold, n, alive);
  } else {
    Entries partners;
    if (fold.proxy()) {
      Ranked folded;
      receive_ranked(comm, fold.partner(), kFold, n, folded);
      partners = folded.entries;
      list = merge_ranked(folded, list);
      drop_cut(alive, list.entries);
      drop_cut(partners, list.entries);
    }
    for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
      const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
      const auto phase = kRounds + static_cast<std::uint32_t>(bit);
      send_ranked(comm, peer, phase, list, n);
      Ranked other;
      receive_ranked(comm, peer, phase, n, other);
      list = comm.rank() < peer ? merge_ranked(list, other)
                                : merge_ranked(other, list);
      drop_cut(alive, list.entries);
      drop_cut(partners, list.entries);
    }
    if (fold.proxy()) {
      send_ranked(comm, fold.partner(), kUnfold, list, n);
      comm.send(fold.partner(), kUnfold, encode_indices(partners.indices, n));
    }
  }
  out.returned.lists.resize(1);
  out.returned.lists[0] = outside(mine.selected, alive.indices);
  out.sum.lists.resize(1);
  out.sum.lists[0] = std::move(list.entries);
}

void GtopkTree::run(Communicator& comm, const Contribution& mine,
                    Delivery& out) {
  constexpr std::uint32_t kResult = 0;
  Ranked list = {mine.selected,
                 std::max<std::uint64_t>(mine.k, mine.selected.size())};
  std::vector<Entries> cuts;  // partial sums that this rank cut
  std::size_t step = 1;
  for (; step < comm.size(); step *= 2) {
    const auto phase = 1 + static_cast<std::uint32_t>(step);
    if (comm.rank() % (2 * step) != 0) {
      send_ranked(comm, comm.rank() - step, phase, list, mine.n);
      break;
    }
    if (comm.rank() + step >= comm.size()) continue;
    Ranked other;
    receive_ranked(comm, comm.rank() + step, phase, mine.n, other);
    const Entries all = merged(list.entries, other.entries);
    list = merge_ranked(list, other);
    cuts.push_back(outside(all, list.entries.indices));
  }
  Entries result;
  if (comm.rank() == 0) {
    result = list.entries;
  } else {
    const std::size_t parent = comm.rank() - (comm.rank() & (~comm.rank() + 1));
    receive_entries(comm, parent, kResult, mine.n, result);
  }
  // Down the same tree.
  const Bytes coded = encode(result, mine.n);
  for (std::size_t down = step / 2; down > 0; down /= 2) {
    if (comm.rank() % (2 * down) == 0 && comm.rank() + down < comm.size()) {
      comm.send(comm.rank() + down, kResult, coded);
    }
  }
  // Own entries outside the result stay with their owner; cut sums whose index
  // is in it have no owner left but the one who cut them.
  Entries returned = outside(mine.selected, result.indices);
  for (const Entries& cut : cuts) {
    returned = merged(returned, inside(cut, result.indices));
  }
  out.returned.lists.resize(1);
  out.returned.lists[0] = std::move(returned);
  out.sum.lists.resize(1);
  out.sum.lists[0] = std::move(result);
}

std::span<const CollectiveEntry> gtopk_collectives() {
  static constexpr std::array kRows = {
      registry_entry<Gtopk, SparseAllreduce>(),
      registry_entry<GtopkTree, SparseAllreduce>(),
  };
  return kRows;
}

}  // namespace sluice
