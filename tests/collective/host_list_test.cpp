// Lists that are merged and cut, against the plainest way to do it.

#include "sluice/collective/host_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "sluice/backend/cpu/kernels.h"
#include "sluice/core/hash.h"
#include "sluice/core/key.h"

namespace sluice::testing {
namespace {

using Entry = std::pair<std::uint32_t, std::uint32_t>;  // index, bits of value

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::vector<Entry> entries_of(const ListView& list) {
  std::vector<Entry> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    out.emplace_back(list.indices[i], bits_of(list.values[i]));
  }
  return out;
}

enum class Kind { kRandom, kTied, kZero, kStrange, kTiny, kHuge };
constexpr Kind kKinds[] = {Kind::kRandom,  Kind::kTied, Kind::kZero,
                           Kind::kStrange, Kind::kTiny, Kind::kHuge};

float value_of(Kind kind, std::uint64_t random) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float sign = random % 2 == 0 ? 1.0F : -1.0F;
  const auto x = static_cast<float>(random >> 40) * 0x1p-24F;
  switch (kind) {
    case Kind::kRandom:
      return sign * x;
    case Kind::kTied:
      return sign * static_cast<float>(1 + random % 5);
    case Kind::kZero:
      return sign * 0.0F;
    case Kind::kStrange:
      return random % 16 < 2   ? std::numeric_limits<float>::quiet_NaN()
             : random % 16 < 4 ? sign * kInf
                               : sign * x;
    case Kind::kTiny:
      return sign * x * 1e-40F;
    case Kind::kHuge:
      return sign * (1 + x) * 1.7e38F;
  }
  return 0;
}

// About `count` of the indices [first, first + range).
HostList make_list(Kind kind, std::size_t count, std::uint64_t range,
                   std::uint64_t seed, std::uint64_t first = 0) {
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    indices.push_back(
        static_cast<std::uint32_t>(first + mix64(seed, i) % range));
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  HostList list;
  for (const std::uint32_t j : indices) {
    list.add(j, value_of(kind, mix64(seed + 1, j)));
  }
  return list;
}

struct Shape {
  std::size_t a;
  std::size_t b;
  std::uint64_t range;
  std::uint64_t first = 0;
};

// None, few, many; apart, mixed, all in common; at the ends of 32 bits.
constexpr Shape kShapes[] = {{0, 0, 10},
                             {0, 50, 100},
                             {1, 1, 1},
                             {7, 90, 200},
                             {33, 31, 40},
                             {500, 500, 300},
                             {500, 500, 60'000},
                             {3000, 40, 1'000'000},
                             {20'000, 30'000, 4'000'000'000},
                             {40'000, 40'000, 100'000},
                             {300, 300, 1000, 0xffff'fffe - 1000},
                             {3000, 3000, 40'000, 0x7fff'ff00}};

std::vector<Entry> plain_sum(const std::vector<HostList>& lists) {
  std::map<std::uint32_t, float> sum;
  for (const HostList& list : lists) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto [at, fresh] =
          sum.try_emplace(list.indices()[i], list.values()[i]);
      if (!fresh) at->second += list.values()[i];
    }
  }
  std::vector<Entry> out;
  for (const auto& [index, value] : sum)
    out.emplace_back(index, bits_of(value));
  return out;
}

template <class F>
void for_all(F&& f) {
  std::uint64_t seed = 1;
  for (const Shape& shape : kShapes) {
    for (const Kind kind : kKinds) {
      SCOPED_TRACE(::testing::Message()
                   << shape.a << " " << shape.b << " " << shape.range << " "
                   << static_cast<int>(kind));
      f(make_list(kind, shape.a, shape.range, seed, shape.first),
        make_list(kind, shape.b, shape.range, seed + 1, shape.first));
      seed += 2;
    }
  }
}

TEST(HostList, MergeAddsWhatBothHave) {
  for_all([](const HostList& a, const HostList& b) {
    HostList out;
    for (const auto& [x, y] : {std::pair(&a, &b), {&b, &a}, {&a, &a}}) {
      merge(*x, *y, out);
      std::vector<HostList> both(2);
      both[0].assign(*x);
      both[1].assign(*y);
      ASSERT_EQ(entries_of(out), plain_sum(both));
    }
  });
}

TEST(HostList, MergeAllAddsInOrder) {
  for (const std::size_t count : {1, 2, 3, 4, 5, 8}) {
    for (const Shape& shape : kShapes) {
      std::vector<HostList> lists;
      for (std::size_t l = 0; l < count; ++l) {
        lists.push_back(make_list(Kind::kRandom, l % 2 == 0 ? shape.a : shape.b,
                                  shape.range, 100 + 2 * l, shape.first));
      }
      const std::vector<Entry> expected = plain_sum(lists);
      HostList scratch;
      merge_all(lists, scratch);
      ASSERT_EQ(entries_of(lists[0]), expected) << count << " " << shape.range;
    }
  }
}

TEST(HostList, LargestEqualsSorting) {
  for_all([](const HostList& a, const HostList& b) {
    HostList list;
    merge(a, b, list);
    std::vector<std::size_t> order(list.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t i, std::size_t j) {
                       return magnitude_key(list.values()[i]) >
                              magnitude_key(list.values()[j]);
                     });
    const std::vector<Entry> all = entries_of(list);
    const std::size_t n = list.size();
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, n / 100, n / 2, n - n / 50, n}) {
      std::vector<bool> kept(n);
      for (std::size_t i = 0; i < std::min(k, n); ++i) kept[order[i]] = true;
      std::vector<Entry> expected[2];
      for (std::size_t i = 0; i < n; ++i) {
        expected[kept[i] ? 0 : 1].push_back(all[i]);
      }
      HostList out;
      HostList rest;
      largest(list, k, out);
      ASSERT_EQ(entries_of(out), expected[0]) << k;
      largest(list, k, out, &rest);
      ASSERT_EQ(entries_of(out), expected[0]) << k;
      ASSERT_EQ(entries_of(rest), expected[1]) << k;
    }
  });
}

TEST(HostList, SplitEqualsLookingUp) {
  for_all([](const HostList& a, const HostList& b) {
    HostList inside;
    HostList outside;
    const auto indices = ListView(b).indices;
    split(a, indices, &inside, &outside);
    std::vector<Entry> expected[2];
    for (const Entry& entry : entries_of(a)) {
      const bool in =
          std::binary_search(indices.begin(), indices.end(), entry.first);
      expected[in ? 0 : 1].push_back(entry);
    }
    ASSERT_EQ(entries_of(inside), expected[0]);
    ASSERT_EQ(entries_of(outside), expected[1]);
    split(a, indices, nullptr, &inside);
    split(a, indices, &outside, nullptr);
    ASSERT_EQ(entries_of(inside), expected[1]);
    ASSERT_EQ(entries_of(outside), expected[0]);
  });
}

// Those that lists use, by every instruction set.
TEST(Kernels, OfListsEqualThePlainVersion) {
  for (const cpu::Kernels* kernels :
       {cpu::avx512_kernels(), cpu::avx2_kernels(), cpu::portable_kernels()}) {
    if (kernels == nullptr) continue;
    SCOPED_TRACE(std::string(kernels->name));
    for_all([&](HostList a, HostList b) {
      HostList sum;
      sum.reset(a.size() + b.size());
      sum.shrink(kernels->merge({a.indices(), a.values(), a.size()},
                                {b.indices(), b.values(), b.size()},
                                {sum.indices(), sum.values(), sum.size()}));
      std::vector<HostList> both(2);
      both[0].assign(a);
      both[1].assign(b);
      ASSERT_EQ(entries_of(sum), plain_sum(both));
      HostList ones;
      HostList zeros;
      ones.reset(a.size());
      zeros.reset(a.size());
      std::vector<std::uint32_t> flags;
      std::vector<Entry> expected[2];
      for (const Entry& entry : entries_of(a)) {
        flags.push_back(mix64(entry.first) % 3 == 0 ? 1 : 0);
        expected[flags.back()].push_back(entry);
      }
      const std::size_t count = kernels->divide(
          {a.indices(), a.values(), a.size()}, a.size(), flags.data(),
          {ones.indices(), ones.values(), a.size()},
          {zeros.indices(), zeros.values(), a.size()});
      ones.shrink(count);
      zeros.shrink(a.size() - count);
      ASSERT_EQ(entries_of(ones), expected[1]);
      ASSERT_EQ(entries_of(zeros), expected[0]);
    });
  }
}

}  // namespace
}  // namespace sluice::testing
