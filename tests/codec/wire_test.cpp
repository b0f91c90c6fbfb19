#include "sluice/backend/cpu/wire.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codec/wire_support.h"
#include "sluice/backend/cpu/bucket_passes.h"
#include "sluice/codec/codec.h"
#include "sluice/core/hash.h"
#include "support.h"

namespace sluice::testing {
namespace {

namespace wire = cpu::wire;

void expect_round_trips(std::uint64_t n, std::uint64_t k) {
  for (const std::string_view kind : {"random", "front", "back", "clusters"}) {
    const List list = make_list(n, k, kind);
    for (const IndexForm form : plain_forms()) {
      if (form == IndexForm::kDense && k != n) continue;
      if (form == IndexForm::kBitmap && n > 1 << 24) continue;
      for (const std::string_view isa : cpu_isas()) {
        const Bytes bytes = encode(list, forced(form), isa);
        ASSERT_FALSE(bytes.empty()) << name_of(form) << " " << n << " " << k;
        ASSERT_EQ(bytes, encode(list, forced(form), "portable"));
        List back;
        ASSERT_EQ(decode(bytes, list.segments, k, back, isa), WireError::kNone)
            << name_of(form) << " n " << n << " k " << k << " " << kind;
        ASSERT_EQ(back.indices, list.indices) << name_of(form) << " " << kind;
        ASSERT_EQ(back.values, list.values);
      }
    }
  }
}

TEST(Wire, RoundTripsEveryIndexForm) {
  for (const std::uint64_t n : {1, 2, 63, 64, 65, 1000, 100'003}) {
    for (const std::uint64_t k : {1, 2, 31, 255, 256, 257, 1000, 100'003}) {
      if (k <= n) expect_round_trips(n, k);
    }
  }
}

// The arithmetic beyond 2^31, without allocating so many elements.
TEST(Wire, RoundTripsHugeDenseSizes) {
  constexpr std::uint64_t kTwo31 = std::uint64_t{1} << 31;
  constexpr std::uint64_t kTwo32 = std::uint64_t{1} << 32;
  for (const std::uint64_t n :
       {kTwo31 - 1, kTwo31, kTwo31 + 1, kTwo32 - 1, kTwo32}) {
    expect_round_trips(n, 1);
    expect_round_trips(n, 1000);
  }
}

TEST(Wire, CarriesAnEmptyBlock) {
  for (const std::uint64_t n : {0, 1, 1000}) {
    const List list = make_list(n, 0, "random");
    const Bytes bytes = encode(list);
    EXPECT_EQ(bytes.size(), sizeof(WireHeader));
    List back;
    EXPECT_EQ(decode(bytes, list.segments, 0, back), WireError::kNone);
    EXPECT_TRUE(back.indices.empty());
    EXPECT_EQ(back.starts, list.starts);
  }
  List none;
  none.starts = {0};
  List back;
  EXPECT_EQ(decode(encode(none), {}, 0, back), WireError::kNone);
}

TEST(Wire, CarriesEveryValueForm) {
  List list = make_list(5000, 300, "random");
  list.cut({2000, 0, 3000});
  for (const ValueForm form :
       {ValueForm::kFp32, ValueForm::kBf16, ValueForm::kFp16, ValueForm::kOne,
        ValueForm::kTwoBit}) {
    List rounded = list;
    rounded.set_values(form);
    List back;
    const Bytes bytes = encode(rounded);
    ASSERT_EQ(decode(bytes, rounded.segments, 300, back), WireError::kNone)
        << name_of(form);
    EXPECT_EQ(back.values, rounded.values) << name_of(form);
    EXPECT_EQ(back.starts, rounded.starts);
    EXPECT_EQ(parts_of(bytes)[0].value_form, static_cast<std::uint8_t>(form));
  }
}

TEST(Wire, ValuesThatATableCannotCarryGoAsFp32) {
  List list = make_list(5000, 300, "random");
  for (const ValueForm form : {ValueForm::kOne, ValueForm::kTwoBit}) {
    list.segments[0].values = form;
    const Bytes bytes = encode(list);
    EXPECT_EQ(parts_of(bytes)[0].value_form, 0);
    List back;
    ASSERT_EQ(decode(bytes, list.segments, 300, back), WireError::kNone);
    EXPECT_EQ(back.values, list.values);
  }
}

// The message of docs/wire.md.
TEST(Wire, WritesTheDocumentedMessage) {
  List list;
  list.indices = {3, 17, 18, 60, 99};
  list.values = {1, -2, 0.5, 4, -0.25};
  list.cut({100});
  list.segments[0].values = ValueForm::kBf16;
  const std::vector<unsigned> expected = {
      0x53, 0x4c, 0x55, 0x43, 3,    0,    0,    0,    1,   0,    0,    0, 0xf3,
      0x5f, 0x97, 0x44, 0x64, 0,    0,    0,    0,    0,   0,    0,    5, 0,
      0,    0,    0,    0,    0,    0,    1,    0,    0,   0,    1,    1, 0,
      0,    5,    0,    0,    0,    0,    0,    0,    0,   0x13, 0xc2, 3, 0,
      0,    0,    0,    0,    0x4d, 4,    0,    0,    0,   0,    0,    0, 0x80,
      0x3f, 0,    0xc0, 0,    0x3f, 0x80, 0x40, 0x80, 0xbe};
  Bytes bytes;
  for (const unsigned b : expected) bytes.push_back(static_cast<std::byte>(b));
  EXPECT_EQ(encode(list, forced(IndexForm::kEliasFano)), bytes);
}

struct RowCase {
  std::string sparsifier;
  Dims dims;
};

const std::vector<RowCase> kRowCases = {
    {"adtopk", {40, 256}},       {"adtopk", {6, 20, 9}},
    {"adtopk", {1, 130, 70}},    {"adtopk", {5, 1, 7}},
    {"adtopk:dim=0", {300, 41}}, {"adtopk", {300, 64, 9}},
    {"tile", {130, 70}},         {"tile", {9000}},
    {"tile", {107, 1}},          {"tile", {200, 3}},
    {"tile", {70, 64}},          {"tile", {130, 200}},
    {"tile", {2, 4100}},
};

TEST(Wire, CarriesRowsAndTiles) {
  for (const RowCase& c : kRowCases) {
    for (const double density : {0.005, 0.012, 0.2}) {
      const List list = selected(c.sparsifier, {c.dims}, density);
      for (const std::string_view isa : cpu_isas()) {
        const Bytes bytes = encode(list, forced(IndexForm::kRows), isa);
        ASSERT_FALSE(bytes.empty());
        List back;
        ASSERT_EQ(decode(bytes, list.segments, list.indices.size(), back, isa),
                  WireError::kNone)
            << c.sparsifier << " " << ::testing::PrintToString(c.dims);
        EXPECT_EQ(back.indices, list.indices);
      }
    }
  }
}

TEST(Wire, EntriesThatAreNotByRowsGoAnotherWay) {
  for (const RowCase& c : kRowCases) {
    List list = selected(c.sparsifier, {c.dims}, 0.012);
    if (list.indices.size() == list.segments[0].size) continue;
    // As many entries, but the first of them elsewhere.
    const auto free = [&](std::uint32_t i) {
      return !std::binary_search(list.indices.begin(), list.indices.end(), i);
    };
    auto other = static_cast<std::uint32_t>(list.segments[0].size - 1);
    while (!free(other)) --other;
    list.indices.erase(list.indices.begin());
    list.indices.insert(
        std::upper_bound(list.indices.begin(), list.indices.end(), other),
        other);
    List back;
    ASSERT_EQ(decode(encode(list), list.segments, list.indices.size(), back),
              WireError::kNone);
    EXPECT_EQ(back.indices, list.indices);
  }
}

TEST(Wire, EliasFanoIsNearTheEntropy) {
  for (const std::uint64_t gap : {10, 100, 1000}) {
    const std::uint64_t n = 20'000 * gap;
    const List list = bernoulli(n, gap);
    const double d = 1.0 / static_cast<double>(gap);
    const double entropy = (-d * std::log2(d) - (1 - d) * std::log2(1 - d)) / d;
    const auto bits = [&](IndexForm form) {
      const Bytes bytes = encode(list, forced(form));
      return 8.0 * static_cast<double>(bytes.size()) /
                 static_cast<double>(list.indices.size()) -
             32;
    };
    EXPECT_LT(bits(IndexForm::kEliasFano), entropy + 0.75) << gap;
    EXPECT_LT(bits(IndexForm::kEliasFano), bits(IndexForm::kBitpack));
  }
}

TEST(Wire, ChoosesTheSmallestForm) {
  const auto form_of = [](const List& list) {
    return static_cast<IndexForm>(parts_of(encode(list)).at(0).index_form);
  };
  EXPECT_EQ(form_of(make_list(1000, 1000, "front")), IndexForm::kDense);
  EXPECT_EQ(form_of(bernoulli(100'000, 100)), IndexForm::kEliasFano);
  EXPECT_EQ(form_of(make_list(100'000, 60'000, "front")), IndexForm::kBitpack);
  EXPECT_EQ(form_of(make_list(100'000, 50'000, "random")), IndexForm::kBitmap);
  EXPECT_EQ(form_of(make_list(100'000, 1, "random")), IndexForm::kRaw32);
  List rows = selected("adtopk", {{1000, 1024}}, 0.001);
  EXPECT_EQ(form_of(rows), IndexForm::kRows);
  // The smallest of all that can carry it, whatever the list.
  for (const std::uint64_t k : {1, 2, 5, 40, 300, 900, 999, 1000}) {
    for (const std::string_view kind : {"random", "back", "clusters"}) {
      const List list = make_list(1000, k, kind);
      const std::size_t chosen = encode(list).size();
      for (const IndexForm form : plain_forms()) {
        const Bytes other = encode(list, forced(form));
        if (other.empty()) continue;  // cannot carry it
        EXPECT_LE(chosen, other.size()) << k << " " << kind;
      }
    }
  }
}

// Two 12-bit positions in three bytes, as SparseLoCo packs them.
TEST(Wire, PacksTwelveBitPositionsLowBitsFirst) {
  std::byte out[8];
  cpu::BitWriter writer(out);
  writer.put(0xABC, 12);
  writer.put(0x123, 12);
  writer.finish();
  EXPECT_EQ(out[0], std::byte{0xBC});
  EXPECT_EQ(out[1], std::byte{0x3A});
  EXPECT_EQ(out[2], std::byte{0x12});
}

TEST(Wire, TwoBitQuantiserMatchesTheReference) {
  std::vector<float> v = {4, -4, 3, -3, 5, -5, 3.5, -3.5};
  cpu::quantize_values(ValueForm::kTwoBit, v);
  const float third = 4.1666665F;
  const std::vector<float> expected = {third, -third, 0,     0,
                                       third, -third, third, -third};
  for (std::size_t i = 0; i < v.size(); ++i) {
    EXPECT_NEAR(v[i], expected[i], 1e-6) << i;
  }
  std::vector<float> equal(5, 2.5F);
  cpu::quantize_values(ValueForm::kTwoBit, equal);
  EXPECT_EQ(equal, std::vector<float>(5, 2.5F));
  std::vector<float> one = {7};
  cpu::quantize_values(ValueForm::kTwoBit, one);
  EXPECT_EQ(one[0], 7.0F);
}

// Segments of all kinds next to each other, in random order.
TEST(WireParts, RoundTripRandomMixes) {
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    const List list = mixed(trial);
    const Bytes bytes = encode(list);
    ASSERT_LE(bytes.size(),
              Codec::max_bytes(list.indices.size(), list.segments.size()));
    for (const std::string_view isa : cpu_isas()) {
      ASSERT_EQ(encode(list, {}, isa), bytes);
      List back;
      ASSERT_EQ(decode(bytes, list.segments, list.indices.size(), back, isa),
                WireError::kNone)
          << trial;
      ASSERT_EQ(back.indices, list.indices) << trial;
      ASSERT_EQ(back.values, list.values) << trial;
      ASSERT_EQ(back.starts, list.starts) << trial;
    }
  }
}

TEST(WireParts, TablesServeEachTensorOfABucket) {
  // 40 tensors with a value each: 4 bytes for it instead of 4 per entry.
  const List one =
      selected("redsync-quantized", std::vector<Dims>(40, Dims{5000}), 0.02);
  List fp32 = one;
  for (SegmentForm& s : fp32.segments) s.values = ValueForm::kFp32;
  EXPECT_EQ(encode(one).size(),
            encode(fp32).size() - 4 * one.indices.size() + 4 * 40);
  EXPECT_EQ(parts_of(encode(one)).size(), 1U);
}

TEST(WireParts, RowsServeTheTensorsThatHaveThem) {
  const Dims rows = {100, 1024};
  const List by_rows = selected("adtopk", {rows, rows}, 0.001);
  const List plain = selected("topk", {{3000}}, 0.01);
  List both = by_rows;
  both.append(plain);
  both.append(by_rows);
  const Bytes bytes = encode(both);
  const auto parts = parts_of(bytes);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].index_form, static_cast<std::uint8_t>(IndexForm::kRows));
  EXPECT_EQ(parts[0].segments, 2U);
  EXPECT_NE(parts[1].index_form, static_cast<std::uint8_t>(IndexForm::kRows));
  EXPECT_EQ(parts[2].index_form, static_cast<std::uint8_t>(IndexForm::kRows));
  // Ten bits for each position, no more.
  const std::size_t entries = by_rows.indices.size();
  EXPECT_EQ(encode(by_rows).size(),
            48 + 8 * ((10 * entries + 63) / 64) + 4 * entries);
  List back;
  EXPECT_EQ(decode(bytes, both.segments, both.indices.size(), back),
            WireError::kNone);
  EXPECT_EQ(back.indices, both.indices);
}

TEST(WireParts, PlainTensorsShareOnePart) {
  List list;
  list.starts = {0};
  for (int i = 0; i < 20; ++i) list.append(make_list(1000, 9, "random"));
  EXPECT_EQ(parts_of(encode(list)).size(), 1U);
  // Few rows among them are not worth a part.
  List with_rows = list;
  with_rows.append(selected("adtopk", {{2, 1024}}, 0.001));
  with_rows.append(list);
  EXPECT_EQ(parts_of(encode(with_rows)).size(), 1U);
}

TEST(WireParts, AMessageIsForItsBucketOnly) {
  List list = make_list(1000, 50, "random");
  list.cut({400, 600});
  list.segments[0].values = ValueForm::kOne;
  std::fill_n(list.values.begin(), list.starts[1], 2.0F);
  const Bytes bytes = encode(list);
  ASSERT_EQ(parts_of(bytes).size(), 2U);
  const auto error_for = [&](std::vector<std::uint64_t> sizes) {
    List other = list;
    other.cut(sizes);
    List back;
    return decode(bytes, other.segments, 50, back);
  };
  EXPECT_EQ(error_for({400, 600}), WireError::kNone);
  EXPECT_EQ(error_for({1000}), WireError::kParts);
  EXPECT_EQ(error_for({300, 300, 400}), WireError::kParts);
  EXPECT_EQ(error_for({400, 601}), WireError::kDenseSize);
  EXPECT_NE(error_for({10, 990}), WireError::kNone);
}

}  // namespace
}  // namespace sluice::testing
