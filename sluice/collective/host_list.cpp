#include "sluice/collective/host_list.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sluice/core/key.h"

namespace sluice {
namespace {

// Where a split stands: in the list, in the indices, and in both outputs.
struct Place {
  std::size_t i;
  std::size_t j;
  std::size_t in;
  std::size_t out;
};

struct Splitter {
  const std::uint32_t* a;
  const float* av;
  const std::uint32_t* b;
  std::uint32_t* in;
  float* inv;
  std::uint32_t* out;
  float* outv;

  // Both ascend together; whether an entry is kept is data, not a branch.
  void step(Place& at) const {
    const std::uint32_t x = a[at.i];
    const std::uint32_t y = b[at.j];
    const float value = av[at.i];
    in[at.in] = x;
    inv[at.in] = value;
    out[at.out] = x;
    outv[at.out] = value;
    at.in += static_cast<std::size_t>(x == y);
    at.out += static_cast<std::size_t>(x < y);
    at.i += static_cast<std::size_t>(x <= y);
    at.j += static_cast<std::size_t>(y <= x);
  }
  void finish(Place& at, std::size_t i_end, std::size_t j_end) const {
    while (at.i < i_end && at.j < j_end) step(at);
    std::copy(a + at.i, a + i_end, out + at.out);
    std::copy(av + at.i, av + i_end, outv + at.out);
    at.out += i_end - at.i;
  }
};

// Moves [begin, begin + count) down to `to`.
void close_gap(HostList& list, std::size_t begin, std::size_t count,
               std::size_t to) {
  if (begin == to) return;
  std::copy_n(list.indices() + begin, count, list.indices() + to);
  std::copy_n(list.values() + begin, count, list.values() + to);
}

// The k largest have keys above `key`, and `ties` of those equal to it.
struct Cut {
  std::uint32_t key = 0;
  std::size_t ties = 0;
  bool all = false;  // of those equal to it
};

// By the upper bits of the keys, then exactly among those that share them with
// the k-th.
Cut find_cut(std::span<const float> values, std::size_t k) {
  constexpr unsigned kShift = 19;
  // Kept: steady state allocates nothing.
  thread_local Array<std::uint32_t> counts;
  thread_local Array<std::uint32_t> keys;
  constexpr std::size_t kBins = 1U << (31 - kShift);
  counts.reset(kBins);
  std::fill(counts.begin(), counts.end(), 0U);
  std::uint32_t* bins = counts.data();
  for (const float v : values) ++bins[magnitude_key(v) >> kShift];
  std::size_t bin = kBins - 1;
  while (counts[bin] < k) k -= counts[bin--];
  keys.reset(counts[bin] + 1);  // one more to write to without looking
  std::size_t count = 0;
  std::uint32_t* found = keys.data();
  for (const float v : values) {
    const std::uint32_t key = magnitude_key(v);
    found[count] = key;
    count += static_cast<std::size_t>(key >> kShift == bin);
  }
  std::uint32_t* place = keys.begin() + (k - 1);
  std::nth_element(keys.begin(), place, keys.begin() + count, std::greater<>());
  const auto above = std::count_if(
      keys.begin(), place, [&](std::uint32_t key) { return key > *place; });
  const auto equal = std::count(keys.begin(), keys.begin() + count, *place);
  const std::size_t ties = k - static_cast<std::size_t>(above);
  return {*place, ties, ties == static_cast<std::size_t>(equal)};
}

// Calls f(kept so far, left so far, i) for every entry: where it would go.
template <class F>
void pick(const ListView& list, const Cut& cut, F&& f) {
  const float* values = list.values.data();
  const std::size_t n = list.size();
  std::size_t kept = 0;
  if (cut.all) {
    for (std::size_t i = 0; i < n; ++i) {
      f(kept, i - kept, i);
      kept += static_cast<std::size_t>(magnitude_key(values[i]) >= cut.key);
    }
    return;
  }
  std::size_t ties = cut.ties;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t key = magnitude_key(values[i]);
    const bool tie = key == cut.key && ties > 0;
    f(kept, i - kept, i);
    ties -= tie ? 1U : 0U;
    kept += key > cut.key || tie ? 1U : 0U;
  }
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
  const Cut cut = find_cut(list.values, k);
  out.reset(k + 1);  // one more to write to without looking
  // Copies, which stores to the lists cannot change.
  const std::uint32_t* from = list.indices.data();
  const float* value = list.values.data();
  std::uint32_t* to = out.indices();
  float* to_value = out.values();
  if (rest == nullptr) {
    pick(list, cut, [=](std::size_t kept, std::size_t, std::size_t i) {
      to[kept] = from[i];
      to_value[kept] = value[i];
    });
  } else {
    rest->reset(list.size() - k + 1);
    std::uint32_t* other = rest->indices();
    float* other_value = rest->values();
    pick(list, cut, [=](std::size_t kept, std::size_t left, std::size_t i) {
      to[kept] = other[left] = from[i];
      to_value[kept] = other_value[left] = value[i];
    });
    rest->shrink(list.size() - k);
  }
  out.shrink(k);
}

// In halves, side by side, as merge() does: none writes beyond its own
// entries.
void split(const ListView& a, std::span<const std::uint32_t> indices,
           HostList& inside, HostList& outside) {
  constexpr std::size_t kParts = 2;
  inside.reset(a.size());
  outside.reset(a.size());
  const Splitter s = {a.indices.data(), a.values.data(), indices.data(),
                      inside.indices(), inside.values(), outside.indices(),
                      outside.values()};
  Place at[kParts];
  std::size_t begin[kParts + 1];
  std::size_t j[kParts + 1] = {};
  for (std::size_t p = 0; p < kParts; ++p) {
    begin[p] = a.size() * p / kParts;
    if (p > 0 && a.size() > 0) {
      j[p] = static_cast<std::size_t>(std::lower_bound(indices.begin(),
                                                       indices.end(),
                                                       a.indices[begin[p]]) -
                                      indices.begin());
    }
    at[p] = {begin[p], j[p], begin[p], begin[p]};
  }
  begin[kParts] = a.size();
  j[kParts] = indices.size();
  while (true) {
    std::size_t steps = a.size() + indices.size();
    for (std::size_t p = 0; p < kParts; ++p) {
      steps = std::min({steps, begin[p + 1] - at[p].i, j[p + 1] - at[p].j});
    }
    if (steps == 0) break;
    for (; steps > 0; --steps) {
      for (std::size_t p = 0; p < kParts; ++p) s.step(at[p]);
    }
  }
  std::size_t in = 0;
  std::size_t out = 0;
  for (std::size_t p = 0; p < kParts; ++p) {
    s.finish(at[p], begin[p + 1], j[p + 1]);
    close_gap(inside, begin[p], at[p].in - begin[p], in);
    close_gap(outside, begin[p], at[p].out - begin[p], out);
    in += at[p].in - begin[p];
    out += at[p].out - begin[p];
  }
  inside.shrink(in);
  outside.shrink(out);
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
