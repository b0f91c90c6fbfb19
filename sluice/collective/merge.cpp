#include <algorithm>
#include <bit>

#include "sluice/collective/host_list.h"

namespace sluice {
namespace {

std::size_t first_from(std::span<const std::uint32_t> indices,
                       std::uint64_t index) {
  return static_cast<std::size_t>(
      std::lower_bound(indices.begin(), indices.end(), index) -
      indices.begin());
}

}  // namespace

void merge(const ListView& a, const ListView& b, HostList& out) {
  out.reset(a.size() + b.size());
  out.shrink(merge_lists(a.entries(), b.entries(), out.out()));
}

namespace {

// A range of indices, small enough for a core's first cache: lists add to it,
// then what was touched is read off in order.
class SumRange {
 public:
  static constexpr std::size_t kSize = 1 << 12;

  // The list's entries from `i` on that lie in the range; returns the first
  // behind it.
  std::size_t add(const ListView& list, std::size_t i, std::uint64_t base) {
    const std::uint32_t* indices = list.indices.data();
    const float* values = list.values.data();
    const std::uint64_t end = base + kSize;
    for (; i < list.size() && indices[i] < end; ++i) {
      const std::size_t j = indices[i] - base;
      touched_[j / 64] |= std::uint64_t{1} << (j % 64);
      sums_[j] += values[i];
    }
    return i;
  }
  // Leaves the range empty; returns how many there were.
  std::size_t take(std::uint64_t base, std::uint32_t* indices, float* values) {
    std::size_t count = 0;
    for (std::size_t w = 0; w < kSize / 64; ++w) {
      for (std::uint64_t word = touched_[w]; word != 0; word &= word - 1) {
        const std::size_t j =
            64 * w + static_cast<std::size_t>(std::countr_zero(word));
        indices[count] = static_cast<std::uint32_t>(base + j);
        values[count++] = sums_[j];
        sums_[j] = 0;
      }
      touched_[w] = 0;
    }
    return count;
  }

 private:
  float sums_[kSize] = {};
  std::uint64_t touched_[kSize / 64] = {};
};

}  // namespace

// A few lists one by one, which is faster; many in one pass over all of them.
void merge_all(std::vector<HostList>& lists, HostList& scratch) {
  constexpr std::size_t kFew = 4;
  if (lists.size() <= kFew) {
    for (std::size_t l = 1; l < lists.size(); ++l) {
      merge(lists[0], lists[l], scratch);
      std::swap(lists[0], scratch);
    }
    return;
  }
  SumRange range;
  thread_local std::vector<std::size_t> next;  // entry of each list
  next.assign(lists.size(), 0);
  std::size_t total = 0;
  for (const HostList& list : lists) total += list.size();
  scratch.reset(total);
  std::size_t count = 0;
  while (true) {
    // Ranges that nobody has anything in are passed over.
    constexpr auto kNone = ~std::uint64_t{0};
    std::uint64_t base = kNone;
    for (std::size_t l = 0; l < lists.size(); ++l) {
      if (next[l] == lists[l].size()) continue;
      base = std::min<std::uint64_t>(base, lists[l].indices()[next[l]]);
    }
    if (base == kNone) break;
    for (std::size_t l = 0; l < lists.size(); ++l) {
      next[l] = range.add(lists[l], next[l], base);
    }
    count +=
        range.take(base, scratch.indices() + count, scratch.values() + count);
  }
  scratch.shrink(count);
  std::swap(lists[0], scratch);
}

namespace {

std::span<const std::uint32_t> indices_of(const SparseView& list) {
  return {list.indices, *list.count};
}

}  // namespace

std::size_t count_union(std::span<const SparseView> lists) {
  constexpr std::size_t kFew = 1 << 10;
  constexpr unsigned kBlock = 10;  // indices of a sampled block, as a power
  std::size_t total = 0;
  std::uint32_t end = 0;
  for (const SparseView& list : lists) {
    const auto indices = indices_of(list);
    total += indices.size();
    if (!indices.empty()) end = std::max(end, indices.back());
  }
  // Every so many blocks, so that about kFew entries are looked at.
  const std::uint64_t stride = 1 + total / kFew;
  std::size_t looked_at = 0;
  std::size_t found = 0;
  thread_local std::vector<std::uint32_t> block;
  for (std::uint64_t start = 0; start <= end; start += stride << kBlock) {
    block.clear();
    for (const SparseView& list : lists) {
      const auto indices = indices_of(list);
      const std::size_t from = first_from(indices, start);
      const std::size_t to =
          first_from(indices, start + (std::uint64_t{1} << kBlock));
      const auto part = indices.subspan(from, to - from);
      block.insert(block.end(), part.begin(), part.end());
    }
    looked_at += block.size();
    std::sort(block.begin(), block.end());
    found += static_cast<std::size_t>(std::unique(block.begin(), block.end()) -
                                      block.begin());
  }
  if (stride == 1 || looked_at == 0) return stride == 1 ? found : total;
  return static_cast<std::size_t>(static_cast<double>(total) *
                                  static_cast<double>(found) /
                                  static_cast<double>(looked_at));
}

double skew_of(std::span<const SparseView> lists, std::uint64_t n,
               std::size_t ranges) {
  double most = 0;
  double total = 0;
  for (std::size_t r = 0; r < ranges; ++r) {
    const auto bound = [&](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned __int128>(n) * i /
                                        ranges);
    };
    double count = 0;
    for (const SparseView& list : lists) {
      const auto indices = indices_of(list);
      count += static_cast<double>(first_from(indices, bound(r + 1)) -
                                   first_from(indices, bound(r)));
    }
    most = std::max(most, count);
    total += count;
  }
  return total > 0 ? most * static_cast<double>(ranges) / total : 1;
}

}  // namespace sluice
