#include "sluice/collective/sparcml.h"

#include "sluice/collective/patterns.h"
#include "sluice/cost/patterns.h"

namespace sluice {

Cost SparcmlRd::cost(const Workload& x, const Network& network,
                     const Rates& rates) {
  const auto round = [&](double count, double merged, double value_bytes = 4) {
    return message_cost(coded_bytes(count, x.n, value_bytes), network) +
           work_cost(count * (rates.encode + rates.decode) +
                     merged * rates.merge);
  };
  const Doubling doubling(x.ranks);
  const double growth = x.k > 0 ? partial_union(x, 2) / x.k : 1;
  double held = x.k;
  Cost total;
  const double meetings = doubling.rounds + (doubling.folded ? 1 : 0);
  for (double i = 0; i < meetings; ++i) {
    const double after = std::min(x.u, held * growth);
    // What was selected travels as it is; sums do not.
    total = total + round(held, after, i == 0 ? x.value_bytes : 4);
    held = after;
  }
  // Who is folded in gets the result; it receives less than others.
  if (doubling.folded) total.seconds += round(x.u, 0).seconds;
  return total;
}

Cost SparcmlSplit::cost(const Workload& load, const Network& network,
                        const Rates& rates) {
  return owned_cost(load, load.u, load.skew, network, rates);
}

void SparcmlRd::run(Communicator& comm, ExchangeContext& context,
                    const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kFold = 0;
  constexpr std::uint32_t kUnfold = 1;
  constexpr std::uint32_t kRounds = 2;
  const Fold fold(comm.rank(), comm.size());
  const std::uint64_t n = mine.n();
  ListCoder& coder = context.coder();
  ListView list = context.host_view(mine);
  // What was selected travels in its own forms, sums as they are. Who folds a
  // pair sends a sum in the first round, and its peer may not.
  const auto send = [&](std::size_t peer, std::uint32_t phase, bool sum) {
    Frame frame = sum ? coder.encode(comm, list, n)
                      : coder.encode(comm, list, mine.forms);
    comm.send(peer, phase, frame);
  };
  const auto receive = [&](std::size_t peer, std::uint32_t phase, bool sum,
                           HostList& to) {
    if (sum) {
      coder.receive(comm, peer, phase, n, to);
    } else {
      coder.receive(comm, peer, phase, mine.forms, to);
    }
  };
  // The lower rank's first on both sides, so that both round alike.
  const auto add = [&](bool mine_first) {
    if (mine_first) {
      merge(list, other_, scratch_);
    } else {
      merge(other_, list, scratch_);
    }
    std::swap(sum_, scratch_);
    list = sum_;
  };
  if (fold.passive()) {
    send(fold.partner(), kFold, false);
    receive(fold.partner(), kUnfold, true, sum_);
    out.sum.lists.push_back(sum_.view());
    return;
  }
  if (fold.proxy()) {
    receive(fold.partner(), kFold, false, other_);
    add(false);
  }
  for (std::size_t bit = 1; bit < fold.power; bit *= 2) {
    const std::size_t peer = fold.real_rank(fold.virtual_rank() ^ bit);
    const auto phase = kRounds + static_cast<std::uint32_t>(bit);
    send(peer, phase, bit > 1 || fold.proxy());
    receive(peer, phase, bit > 1 || fold.is_proxy(peer), other_);
    // Nobody need merge the last two, unless somebody waits for one list.
    if (bit > 1 && 2 * bit == fold.power && fold.rest == 0) {
      const bool mine_first = comm.rank() < peer;
      out.sum.lists = {(mine_first ? sum_ : other_).view(),
                       (mine_first ? other_ : sum_).view()};
      return;
    }
    add(comm.rank() < peer);
  }
  if (fold.proxy()) send(fold.partner(), kUnfold, true);
  out.sum.lists.push_back(sum_.view());
}

void SparcmlSplit::run(Communicator& comm, ExchangeContext& context,
                       const Contribution& mine, Delivery& out) {
  constexpr std::uint32_t kPush = 0;
  constexpr std::uint32_t kPull = 1;
  const std::size_t size = comm.size();
  ListCoder& coder = context.coder();
  const ListView selected = context.host_view(mine);
  const auto begin = [&](std::size_t r) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(mine.n()) *
                                      r / size);
  };
  const auto width = [&](std::size_t r) { return begin(r + 1) - begin(r); };
  // A rank's range, its indices counted from where the range begins.
  const auto part = [&](std::size_t r) {
    clip_forms(mine.forms, begin(r), begin(r + 1), forms_);
    return shift(slice(selected, begin(r), begin(r + 1)), begin(r), indices_);
  };
  for_others(comm, [&](std::size_t peer) {
    const ListView list = part(peer);  // and its forms
    Frame frame = coder.encode(comm, list, forms_);
    comm.send(peer, kPush, frame);
  });
  const std::size_t me = comm.rank();
  parts_.resize(size);
  parts_[me].assign(part(me));
  for_others(comm, [&](std::size_t peer) {
    coder.receive(comm, peer, kPush, std::span<const SegmentForm>(forms_),
                  parts_[peer]);
  });
  merge_all(parts_, scratch_);
  Frame frame = coder.encode(comm, parts_[0], width(me));
  send_to_others(comm, kPull, frame);
  sums_.resize(size);
  std::swap(sums_[me], parts_[0]);
  const auto count_from_zero = [&](std::size_t r) {
    const auto first = static_cast<std::uint32_t>(begin(r));
    for (std::size_t i = 0; i < sums_[r].size(); ++i) {
      sums_[r].indices()[i] += first;
    }
  };
  count_from_zero(me);
  for_others(comm, [&](std::size_t peer) {
    coder.receive(comm, peer, kPull, width(peer), sums_[peer]);
    count_from_zero(peer);  // while they are in the cache
  });
  for (const HostList& sum : sums_) out.sum.lists.push_back(sum.view());
}

}  // namespace sluice
