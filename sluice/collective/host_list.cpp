#include "sluice/collective/host_list.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sluice/core/key.h"

namespace sluice {
namespace {

// Both lists ascend together; whether an entry is kept is data, not a branch.
template <bool wanted>
void members(const ListView& a, std::span<const std::uint32_t> indices,
             HostList& out) {
  out.reset(a.size());
  std::uint32_t* to = out.indices();
  float* to_value = out.values();
  std::size_t count = 0;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < indices.size()) {
    const std::uint32_t x = a.indices[i];
    const std::uint32_t y = indices[j];
    to[count] = x;
    to_value[count] = a.values[i];
    count += static_cast<std::size_t>(wanted ? x == y : x < y);
    i += static_cast<std::size_t>(x <= y);
    j += static_cast<std::size_t>(y <= x);
  }
  if (!wanted) {
    std::copy(a.indices.begin() + static_cast<std::ptrdiff_t>(i),
              a.indices.end(), to + count);
    std::copy(a.values.begin() + static_cast<std::ptrdiff_t>(i), a.values.end(),
              to_value + count);
    count += a.size() - i;
  }
  out.shrink(count);
}

// The k largest have keys above `key`, and `ties` of those equal to it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t ties = 0;
};

// By the upper bits of the keys, then exactly among those that share them with
// the k-th.
Cut find_cut(std::span<const float> values, std::size_t k) {
  constexpr unsigned kShift = 19;
  // Kept: steady state allocates nothing.
  thread_local Array<std::uint32_t> counts;
  thread_local Array<std::uint32_t> keys;
  counts.reset(1U << (31 - kShift));
  std::fill(counts.begin(), counts.end(), 0U);
  for (const float v : values) ++counts[magnitude_key(v) >> kShift];
  std::size_t bin = counts.size() - 1;
  while (counts[bin] < k) k -= counts[bin--];
  keys.reset(counts[bin] + 1);  // one more to write to without looking
  std::size_t count = 0;
  for (const float v : values) {
    const std::uint32_t key = magnitude_key(v);
    keys[count] = key;
    count += key >> kShift == bin ? 1U : 0U;
  }
  std::uint32_t* place = keys.begin() + (k - 1);
  std::nth_element(keys.begin(), place, keys.begin() + count, std::greater<>());
  const auto above = std::count_if(
      keys.begin(), place, [&](std::uint32_t key) { return key > *place; });
  return {*place, k - static_cast<std::size_t>(above)};
}

}  // namespace

void merge_all(std::vector<HostList>& lists, HostList& scratch) {
  for (std::size_t half = 1; half < lists.size(); half *= 2) {
    for (std::size_t i = 0; i + half < lists.size(); i += 2 * half) {
      merge(lists[i], lists[i + half], scratch);
      std::swap(lists[i], scratch);
    }
  }
}

void largest(const ListView& list, std::size_t k, HostList& out) {
  if (list.size() <= k) {
    out.assign(list);
    return;
  }
  out.clear();
  if (k == 0) return;
  const Cut cut = find_cut(list.values, k);
  std::size_t ties = cut.ties;
  out.reset(k + 1);  // one more to write to without looking
  std::size_t count = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::uint32_t key = magnitude_key(list.values[i]);
    const bool tie = key == cut.key && ties > 0;
    out.indices()[count] = list.indices[i];
    out.values()[count] = list.values[i];
    ties -= tie ? 1U : 0U;
    count += key > cut.key || tie ? 1U : 0U;
  }
  out.shrink(k);
}

void inside(const ListView& a, std::span<const std::uint32_t> indices,
            HostList& out) {
  members<true>(a, indices, out);
}

void outside(const ListView& a, std::span<const std::uint32_t> indices,
             HostList& out) {
  members<false>(a, indices, out);
}

ListView slice(const ListView& a, std::uint64_t begin, std::uint64_t end) {
  const auto place = [&](std::uint64_t index) {
    return static_cast<std::size_t>(
        std::lower_bound(a.indices.begin(), a.indices.end(), index) -
        a.indices.begin());
  };
  const std::size_t first = place(begin);
  const std::size_t count = place(end) - first;
  return {a.indices.subspan(first, count), a.values.subspan(first, count)};
}

void shift(const ListView& a, std::uint64_t base, HostList& out) {
  out.assign(a);
  const auto from = static_cast<std::uint32_t>(base);
  for (std::size_t i = 0; i < out.size(); ++i) out.indices()[i] -= from;
}

}  // namespace sluice
