#pragma once

#include "sluice/plan/merge.h"

namespace sluice {

// Every group of a chain by every way, priced once for several merges. Refers
// to both, which must outlive it.
//
// Of a chain of more than kMost gradients, runs of neighbours count as one: the
// table is quadratic.
class PricedChain {
 public:
  static constexpr std::size_t kMost = 1000;

  PricedChain(const Chain& chain, std::span<const GroupCosts> ways);

  const Chain& whole() const { return whole_; }
  const Chain& chain() const { return chain_; }  // with runs as one
  // Groups of chain() as those of whole().
  Groups expand(Groups groups) const;
  std::span<const GroupCosts> ways() const { return ways_; }
  const GroupCost& at(std::size_t way, std::size_t begin,
                      std::size_t end) const {
    return prices_[index(way, begin, end)];
  }

 private:
  std::size_t index(std::size_t way, std::size_t begin, std::size_t end) const {
    const std::size_t size = chain_.elements.size();
    return (way * size + begin) * (size + 1) + end;
  }

  const Chain& whole_;
  Chain chain_;
  std::vector<std::size_t> starts_;  // of runs, in whole(), and its size
  std::span<const GroupCosts> ways_;
  std::vector<GroupCost> prices_;
};

// The partition, and one of the first `count` ways for each group, that ends
// first: a dynamic program over the fronts of (computed, sent) that are not
// dominated. Exact for costs that depend on a group's elements alone, unless
// more states are left than there is time for (some hundred gradients, of which
// backward hides nearly all) or the chain is longer than PricedChain::kMost;
// then at least no longer than all gradients alone or together.
Groups merge_exactly(const PricedChain& priced, std::size_t count,
                     bool select_beside);
Groups merge_exactly(const Chain& chain, std::span<const GroupCosts> ways,
                     bool select_beside);

}  // namespace sluice
