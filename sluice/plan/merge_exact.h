#pragma once

#include "sluice/plan/merge.h"

namespace sluice {

// Every group of a chain by every way, priced once for several merges. Refers
// to both, which must outlive it.
class PricedChain {
 public:
  PricedChain(const Chain& chain, std::span<const GroupCosts> ways);

  const Chain& chain() const { return chain_; }
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

  const Chain& chain_;
  std::span<const GroupCosts> ways_;
  std::vector<GroupCost> prices_;
};

// The partition, and one of the first `count` ways for each group, that ends
// first: a dynamic program over the fronts of (computed, sent) that are not
// dominated. Exact for costs that depend on a group's elements alone.
Groups merge_exactly(const PricedChain& priced, std::size_t count,
                     bool select_beside);
Groups merge_exactly(const Chain& chain, std::span<const GroupCosts> ways,
                     bool select_beside);

}  // namespace sluice
