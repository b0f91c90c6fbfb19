#include "sluice/collective/gtopk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "sluice/collective/patterns.h"
#include "sluice/cost/patterns.h"

namespace sluice {
namespace {

// A list of k comes, is merged with one's own, and the k largest are kept.
Cost pair_cost(const Workload& x, const Network& network, const Rates& rates) {
  return message_cost(coded_bytes(x.k, x.n), network) +
         work_cost(x.k * (rates.encode + rates.decode + 4 * rates.merge));
}

}  // namespace

Cost Gtopk::cost(const Workload& load, const Network& network,
                 const Rates& rates) {
  const Doubling doubling(load.ranks);
  const Cost pair = pair_cost(load, network, rates);
  if (!doubling.folded) return doubling.rounds * pair;
  // Who is folded in gets the result, and then which of its own are in it; it
  // receives less than others.
  const double indices = coded_bytes(load.k, load.n) - 4 * load.k;
  return (doubling.rounds + 1) * pair +
         work_cost(pair.seconds + message_cost(indices, network).seconds);
}

// Rank 0 waits for every level of the tree, and the last rank for every level
// of the broadcast.
Cost GtopkTree::cost(const Workload& load, const Network& network,
                     const Rates& rates) {
  const double levels = std::ceil(std::log2(load.ranks));
  const Cost down = message_cost(coded_bytes(load.k, load.n), network);
  return levels * pair_cost(load, network, rates) +
         work_cost(levels * down.seconds + load.k * rates.decode);
}

void MergeAndCut::start(const ListView& first, std::uint64_t k) {
  list_ = first;
  k_ = std::max<std::uint64_t>(k, first.size());
}

void MergeAndCut::add(const ListView& other, std::uint64_t k, bool mine_first,
                      HostList* rest) {
  if (mine_first) {
    merge(list_, other, whole_);
  } else {
    merge(other, list_, whole_);
  }
  k_ = std::max(k_, k);
  largest(whole_, k_, kept_, rest);
  list_ = kept_;
}

// What the last cut has touched leaves the masks; a rank's own returns to it.
void Gtopk::drop_cut(bool folds, Pieces& returned) {
  const std::span<const std::uint32_t> kept = list_.list().indices;
  HostList& cut = cuts_[cut_++];
  split(alive_, kept, &scratch_, &cut);
  std::swap(alive_, scratch_);
  returned.lists.push_back(cut.view());
  if (!folds) return;
  split(partners_, kept, &scratch_, nullptr);
  std::swap(partners_, scratch_);
}

void Gtopk::run(Communicator& comm, ExchangeContext& context,
                const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kFold = 0;
  constexpr std::uint32_t kUnfold = 1;
  constexpr std::uint32_t kRounds = 2;
  const Fold fold(comm.rank(), comm.size());
  const SegmentForm sum = {.size = mine.n(), .sums = true};
  const std::span<const SegmentForm> sums(&sum, 1);
  ListCoder& coder = context.coder();
  const ListView selected = context.host_view(mine);
  list_.start(selected, mine.k);
  const auto send = [&](std::size_t peer, std::uint32_t phase, bool is_sum) {
    Frame frame = encode_ranked(coder, comm, list_.list(),
                                is_sum ? sums : mine.forms, list_.k());
    comm.send(peer, phase, frame);
  };
  if (fold.passive()) {
    send(fold.partner(), kFold, false);
    // The result, then which of mine are in it with my share.
    receive_ranked(coder, comm, fold.partner(), kUnfold, sums, scratch_);
    coder.decode(comm, fold.partner(), comm.receive(fold.partner(), kUnfold),
                 mine.n(), alive_, ValueForm::kOne);
    std::swap(result_, scratch_);
    split(selected, ListView(alive_).indices, nullptr, &partners_);
    out.sum.lists.push_back(result_.view());
    out.returned.lists.push_back(partners_.view());
    out.refused = 1;
    return;
  }
  alive_.assign(selected);
  partners_.clear();
  cut_ = 0;
  cuts_.resize(1 + static_cast<std::size_t>(std::bit_width(fold.power)));
  if (fold.proxy()) {
    const std::uint64_t k = receive_ranked(coder, comm, fold.partner(), kFold,
                                           mine.forms, partners_);
    list_.add(partners_, k, false);
    drop_cut(true, out.returned);
  }
  for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
    const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
    const auto phase = kRounds + static_cast<std::uint32_t>(bit);
    send(peer, phase, bit > 1 || fold.proxy());
    const std::uint64_t k = receive_ranked(
        coder, comm, peer, phase,
        bit > 1 || fold.is_proxy(peer) ? sums : mine.forms, result_);
    list_.add(result_, k, comm.rank() < peer);
    drop_cut(fold.proxy(), out.returned);
  }
  if (fold.proxy()) {
    send(fold.partner(), kUnfold, true);
    Frame frame = coder.encode_indices(
        comm, {partners_.indices(), partners_.size()}, mine.n());
    comm.send(fold.partner(), kUnfold, frame);
  }
  out.refused = out.returned.lists.size();
  out.sum.lists.push_back(list_.kept().view());
}

void GtopkTree::run(Communicator& comm, ExchangeContext& context,
                    const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kResult = 0;
  ListCoder& coder = context.coder();
  const SegmentForm sum = {.size = mine.n(), .sums = true};
  const std::span<const SegmentForm> sums(&sum, 1);
  const std::size_t rank = comm.rank();
  const ListView selected = context.host_view(mine);
  list_.start(selected, mine.k);
  std::size_t cuts = 0;
  std::size_t step = 1;
  // The last rank has nobody's list but its own, whenever it sends that.
  const auto forms = [&](std::size_t sender) {
    return step == 1 || sender + 1 == comm.size() ? mine.forms : sums;
  };
  for (; step < comm.size(); step *= 2) {
    const auto phase = 1 + static_cast<std::uint32_t>(step);
    if (rank % (2 * step) != 0) {
      Frame frame =
          encode_ranked(coder, comm, list_.list(), forms(rank), list_.k());
      comm.send(rank - step, phase, frame);
      break;
    }
    if (rank + step >= comm.size()) continue;
    const std::uint64_t k = receive_ranked(coder, comm, rank + step, phase,
                                           forms(rank + step), scratch_);
    if (cuts_.size() == cuts) cuts_.emplace_back();
    list_.add(scratch_, k, true, &cuts_[cuts++]);
  }
  // Down the same tree, as it came.
  Frame frame;
  if (rank == 0) {
    result_.assign(list_.list());
    frame = coder.encode(comm, result_, mine.n());
  } else {
    const std::size_t parent = rank - (rank & (~rank + 1));
    frame = comm.receive_frame(parent, kResult);
    coder.decode(comm, parent, frame.payload(), mine.n(), result_);
  }
  for (std::size_t down = step / 2; down > 0; down /= 2) {
    if (rank % (2 * down) == 0 && rank + down < comm.size()) {
      comm.send(rank + down, kResult, frame);
    }
  }
  // Own entries outside the result stay with their owner; cut sums whose index
  // is in it have no owner left but the one who cut them.
  const std::span<const std::uint32_t> kept = ListView(result_).indices;
  split(selected, kept, nullptr, &returned_);
  out.returned.lists.push_back(returned_.view());
  out.refused = 1;
  for (std::size_t c = 0; c < cuts; ++c) {
    split(cuts_[c], kept, &scratch_, nullptr);
    std::swap(cuts_[c], scratch_);
    out.returned.lists.push_back(cuts_[c].view());
  }
  out.sum.lists.push_back(result_.view());
}

std::span<const CollectiveEntry> gtopk_collectives() {
  static constexpr std::array kRows = {
      collective_entry<Gtopk>(),
      collective_entry<GtopkTree>(),
  };
  return kRows;
}

}  // namespace sluice
