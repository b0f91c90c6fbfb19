#include "sluice/collective/gtopk.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sluice/collective/patterns.h"

namespace sluice {
namespace {

// Leaves of `alive` what no cut has touched.
void drop_cut(HostList& alive, const ListView& kept, HostList& scratch) {
  inside(alive, kept.indices, scratch);
  std::swap(alive, scratch);
}

}  // namespace

void MergeAndCut::start(const ListView& first, std::uint64_t k) {
  list_ = first;
  k_ = std::max<std::uint64_t>(k, first.size());
}

void MergeAndCut::add(const ListView& other, std::uint64_t k, bool mine_first) {
  if (mine_first) {
    merge(list_, other, whole_);
  } else {
    merge(other, list_, whole_);
  }
  k_ = std::max(k_, k);
  largest(whole_, k_, kept_);
  list_ = kept_;
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
    outside(selected, {alive_.indices(), alive_.size()}, returned_);
    out.sum.lists.push_back(result_.view());
    out.returned.lists.push_back(returned_.view());
    return;
  }
  alive_.assign(selected);
  partners_.clear();
  if (fold.proxy()) {
    const std::uint64_t k = receive_ranked(coder, comm, fold.partner(), kFold,
                                           mine.forms, partners_);
    list_.add(partners_, k, false);
    drop_cut(alive_, list_.list(), scratch_);
    drop_cut(partners_, list_.list(), scratch_);
  }
  for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
    const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
    const auto phase = kRounds + static_cast<std::uint32_t>(bit);
    send(peer, phase, bit > 1 || fold.proxy());
    const std::uint64_t k = receive_ranked(
        coder, comm, peer, phase,
        bit > 1 || fold.is_proxy(peer) ? sums : mine.forms, result_);
    list_.add(result_, k, comm.rank() < peer);
    drop_cut(alive_, list_.list(), scratch_);
    if (fold.proxy()) drop_cut(partners_, list_.list(), scratch_);
  }
  if (fold.proxy()) {
    send(fold.partner(), kUnfold, true);
    Frame frame = coder.encode_indices(
        comm, {partners_.indices(), partners_.size()}, mine.n());
    comm.send(fold.partner(), kUnfold, frame);
  }
  outside(selected, {alive_.indices(), alive_.size()}, returned_);
  out.sum.lists.push_back(list_.kept().view());
  out.returned.lists.push_back(returned_.view());
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
  for (; step < comm.size(); step *= 2) {
    const auto phase = 1 + static_cast<std::uint32_t>(step);
    if (rank % (2 * step) != 0) {
      Frame frame = encode_ranked(coder, comm, list_.list(),
                                  step == 1 ? mine.forms : sums, list_.k());
      comm.send(rank - step, phase, frame);
      break;
    }
    if (rank + step >= comm.size()) continue;
    const std::uint64_t k =
        receive_ranked(coder, comm, rank + step, phase,
                       step == 1 ? mine.forms : sums, scratch_);
    list_.add(scratch_, k, true);
    if (cuts_.size() == cuts) cuts_.emplace_back();
    outside(list_.whole(), list_.list().indices, cuts_[cuts++]);
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
  outside(selected, kept, returned_);
  out.returned.lists.push_back(returned_.view());
  for (std::size_t c = 0; c < cuts; ++c) {
    inside(cuts_[c], kept, scratch_);
    std::swap(cuts_[c], scratch_);
    out.returned.lists.push_back(cuts_[c].view());
  }
  out.sum.lists.push_back(result_.view());
}

std::span<const CollectiveEntry> gtopk_collectives() {
  static constexpr std::array kRows = {
      registry_entry<Gtopk, SparseAllreduce>(),
      registry_entry<GtopkTree, SparseAllreduce>(),
  };
  return kRows;
}

}  // namespace sluice
