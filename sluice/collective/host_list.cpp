#include "sluice/collective/host_list.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sluice/core/key.h"

namespace sluice {
namespace {

// The k largest have keys above `key`, and `ties` of those equal to it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t ties = 0;
  bool all = false;  // of those equal to it
};

// In this many bins, each of 2^shift keys from `lo` on.
class Histogram {
 public:
  static constexpr std::size_t kBins = 1 << 12;

  Histogram(std::uint32_t lo, unsigned shift) : lo_(lo), shift_(shift) {}
  void add(float value) { ++counts_[(magnitude_key(value) - lo_) >> shift_]; }
  // The highest bin that is not above the k-th largest; k becomes its rank in
  // the bin. With a k beyond all: the lowest one.
  std::size_t find(std::size_t& k) const {
    std::size_t bin = kBins - 1;
    while (bin > 0 && counts_[bin] < k) k -= counts_[bin--];
    return bin;
  }
  std::uint32_t key(std::size_t bin) const {
    return lo_ + (static_cast<std::uint32_t>(bin) << shift_);
  }

 private:
  std::uint32_t lo_;
  unsigned shift_;
  std::uint32_t counts_[kBins] = {};
};

constexpr std::uint32_t kAllKeys = kMagnitudeMask + 1;

// Keys [lo, hi) that the k-th largest is likely to be among, by a sample.
std::pair<std::uint32_t, std::uint32_t> guess_keys(
    std::span<const float> values, std::size_t k) {
  constexpr std::size_t kSample = 1 << 12;
  constexpr std::size_t kMargin = 150;  // more than four deviations
  const std::size_t stride = values.size() / kSample + 1;
  const std::size_t place = k / stride;
  Histogram sample(0, 19);
  for (std::size_t i = 0; i < values.size(); i += stride) sample.add(values[i]);
  std::size_t low = place + kMargin;
  std::size_t high = place > kMargin ? place - kMargin : 0;
  return {sample.key(sample.find(low)), sample.key(sample.find(high) + 1)};
}

// Among a few by the guess, else among all; there by bins, then exactly.
Cut find_cut(const ListView& list, std::size_t k) {
  thread_local HostList few;  // kept: steady state allocates nothing
  few.reset(list.size());
  auto [lo, hi] = guess_keys(list.values, k);
  std::size_t above = count_from(list.values.data(), list.size(), hi);
  few.shrink(copy_between(list.entries(), lo, hi, few.out()));
  if (above >= k || above + few.size() < k) {
    above = 0;
    lo = 0;
    hi = kAllKeys;
    few.assign(list);
  }
  k -= above;
  // One bin more than the width would give: hi - lo may be no power of two.
  const auto shift = static_cast<unsigned>(
      std::max(0, static_cast<int>(std::bit_width(hi - lo - 1)) -
                      std::countr_zero(Histogram::kBins)));
  Histogram bins(lo, shift);
  for (const float v : ListView(few).values) bins.add(v);
  const std::size_t bin = bins.find(k);
  const std::uint32_t end = bin + 1 < Histogram::kBins ? bins.key(bin + 1) : hi;
  few.shrink(
      copy_between(ListView(few).entries(), bins.key(bin), end, few.out()));
  const auto less = [](float a, float b) {
    return magnitude_key(a) > magnitude_key(b);
  };
  float* place = few.values() + (k - 1);
  std::nth_element(few.values(), place, few.values() + few.size(), less);
  const std::uint32_t key = magnitude_key(*place);
  k -= count_from(few.values(), few.size(), key + 1);
  return {key, k, k == count_from(few.values(), few.size(), key)};
}

}  // namespace

void largest(const ListView& list, std::size_t k, HostList& out,
             HostList* rest) {
  if (rest != nullptr) rest->clear();
  if (list.size() <= k) {
    out.assign(list);
    return;
  }
  if (k == 0) {
    out.clear();
    if (rest != nullptr) rest->assign(list);
    return;
  }
  const Cut cut = find_cut(list, k);
  // Entries before `last` may be at the cut, those behind it are above.
  std::size_t last = list.size();
  if (!cut.all) {
    std::size_t ties = cut.ties;
    for (last = 0; ties > 0; ++last) {
      ties -= magnitude_key(list.values[last]) == cut.key ? 1U : 0U;
    }
  }
  const auto copy = [&](bool kept, HostList& to) {
    const auto part = [&](const Entries& from, std::uint32_t key,
                          const EntriesOut& at) {
      return kept ? copy_between(from, key, kAllKeys, at)
                  : copy_between(from, 0, key, at);
    };
    const Entries all = list.entries();
    const std::size_t count = part(all.first(last), cut.key, to.out());
    part(all.from(last), cut.key + 1, to.out().from(count));
  };
  out.reset(k);
  copy(true, out);
  if (rest == nullptr) return;
  rest->reset(list.size() - k);
  copy(false, *rest);
}

// A few indices at a time are marked in a map that fits a core's first cache.
void split(const ListView& a, std::span<const std::uint32_t> indices,
           HostList* inside, HostList* outside) {
  constexpr std::size_t kMap = 1 << 13;
  constexpr std::size_t kSome = 1 << 9;
  // Not of bytes: a store to those might change any variable here.
  std::uint16_t map[kMap] = {};
  std::uint16_t stamp = 0;
  std::uint32_t flags[kSome];
  std::uint64_t base = 0;
  std::uint64_t end = 0;
  const std::uint32_t* mark = indices.data();
  const std::uint32_t* last = mark + indices.size();
  // The next indices, up to `end`, are marked by a stamp of their own.
  const auto move_to = [&](std::uint64_t index) {
    base = index;
    end = base + kMap;
    if (++stamp == 0) std::fill_n(map, kMap, stamp++);
    while (mark < last && *mark < base) ++mark;
    for (; mark < last && *mark < end; ++mark) map[*mark - base] = stamp;
  };
  // What nobody asked for goes here, again and again.
  std::uint32_t no_indices[kSome + kListSlack];
  float no_values[kSome + kListSlack];
  const auto out = [&](HostList* list, std::size_t at) {
    return list != nullptr ? list->out().from(at)
                           : EntriesOut{no_indices, no_values};
  };
  if (inside != nullptr) inside->reset(a.size());
  if (outside != nullptr) outside->reset(a.size());
  std::size_t in = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += kSome) {
    const Entries some =
        a.entries().from(begin).first(std::min(kSome, a.size() - begin));
    for (std::size_t i = 0; i < some.count;) {
      if (some.indices[i] >= end) move_to(some.indices[i]);
      for (; i < some.count && some.indices[i] < end; ++i) {
        flags[i] = map[some.indices[i] - base] == stamp ? 1 : 0;
      }
    }
    in += copy_by_flag(some, flags, out(inside, in), out(outside, begin - in));
  }
  if (inside != nullptr) inside->shrink(in);
  if (outside != nullptr) outside->shrink(a.size() - in);
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

ListView shift(const ListView& a, std::uint64_t base,
               Array<std::uint32_t>& indices) {
  const auto from = static_cast<std::uint32_t>(base);
  indices.reset(a.size());
  std::transform(a.indices.begin(), a.indices.end(), indices.begin(),
                 [=](std::uint32_t index) { return index - from; });
  return {{indices.data(), a.size()}, a.values};
}

}  // namespace sluice
