// Bytes from anyone: nothing but an error may come of them.

#include <algorithm>
#include <cstring>
#include <limits>

#include "codec/wire_support.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

class Hostile : public ::testing::Test {
 protected:
  static Bytes message(IndexForm form = IndexForm::kEliasFano) {
    return encode(make_list(1000, 50, "random"), forced(form));
  }
  static WireError error_of(const Bytes& bytes, std::uint64_t n = 1000,
                            std::size_t capacity = 1000) {
    const SegmentForm segment = {n, ValueForm::kFp32, {}};
    List out;
    const WireError error = decode(bytes, {&segment, 1}, capacity, out);
    if (error != WireError::kNone) {
      EXPECT_EQ(out.starts, std::vector<std::uint64_t>(2, 0));
    }
    return error;
  }
  template <class F>
  static WireError patched(Bytes bytes, F&& f) {
    WireHeader header;
    WirePart part;
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::memcpy(&part, bytes.data() + sizeof(header), sizeof(part));
    f(header, part);
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &part, sizeof(part));
    seal(bytes);
    return error_of(bytes);
  }
};

TEST_F(Hostile, EveryTruncationIsSeen) {
  for (const IndexForm form : {IndexForm::kEliasFano, IndexForm::kBitpack,
                               IndexForm::kBitmap, IndexForm::kRaw32}) {
    const Bytes whole = message(form);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      Bytes cut(whole.begin(),
                whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NE(error_of(cut), WireError::kNone) << size;
      if (size < sizeof(WireHeader)) continue;
      seal(cut);
      ASSERT_NE(error_of(cut), WireError::kNone) << size;
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_EQ(error_of(longer), WireError::kChecksum);
    seal(longer);
    EXPECT_EQ(error_of(longer), WireError::kLengths);
  }
}

TEST_F(Hostile, EveryBitFlipIsSeen) {
  const Bytes whole = message();
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes bad = whole;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(error_of(bad), WireError::kNone) << bit;
  }
}

TEST_F(Hostile, EachCheckHasItsError) {
  const Bytes good = message();
  EXPECT_EQ(error_of(good), WireError::kNone);
  EXPECT_EQ(error_of(good, 999), WireError::kDenseSize);
  EXPECT_EQ(error_of(good, 1000, 49), WireError::kCapacity);
  using H = WireHeader;
  using P = WirePart;
  EXPECT_EQ(patched(good, [](H& h, P&) { h.magic ^= 1; }), WireError::kMagic);
  for (const unsigned version : {2U, 4U}) {
    EXPECT_EQ(patched(good,
                      [&](H& h, P&) {
                        h.version = static_cast<std::uint16_t>(version);
                      }),
              WireError::kVersion);
  }
  EXPECT_EQ(patched(good, [](H& h, P&) { h.reserved = 1; }),
            WireError::kReserved);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.reserved = 1; }),
            WireError::kReserved);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.index_form = 6; }),
            WireError::kForm);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.value_form = 99; }),
            WireError::kForm);
  for (const std::uint32_t parts : {0U, 2U, ~0U}) {
    EXPECT_EQ(patched(good, [&](H& h, P&) { h.parts = parts; }),
              WireError::kParts);
  }
  for (const std::uint32_t segments : {0U, 2U, ~0U}) {
    EXPECT_EQ(patched(good, [&](H&, P& p) { p.segments = segments; }),
              WireError::kParts);
  }
  for (const std::uint64_t count : {std::uint64_t{1001}, ~std::uint64_t{0}}) {
    EXPECT_EQ(patched(good, [&](H& h, P&) { h.count = count; }),
              WireError::kCount);
    EXPECT_EQ(patched(good, [&](H&, P& p) { p.count = count; }),
              WireError::kCount);
  }
  EXPECT_EQ(patched(good, [](H&, P& p) { p.count = 49; }), WireError::kCount);
  EXPECT_EQ(patched(good, [](H& h, P& p) { h.count = p.count = 60; }),
            WireError::kIndexSection);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.index_form = 0; }),
            WireError::kIndexSection);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.index_form = 3; }),
            WireError::kIndexSection);
  EXPECT_EQ(patched(good, [](H&, P& p) { p.value_form = 1; }),
            WireError::kLengths);
}

TEST_F(Hostile, UnsortedAndOutOfRangeIndicesAreSeen) {
  Bytes raw = message(IndexForm::kRaw32);
  const auto put = [&](std::size_t entry, std::uint32_t index) {
    std::memcpy(raw.data() + kHead + 4 * entry, &index, 4);
    seal(raw);
  };
  put(49, 1000);
  EXPECT_EQ(error_of(raw), WireError::kIndexRange);
  put(49, ~0U);
  EXPECT_EQ(error_of(raw), WireError::kIndexRange);
  put(49, 0);
  EXPECT_EQ(error_of(raw), WireError::kIndexOrder);
}

TEST_F(Hostile, ValuesThatAreNotFiniteAreSeen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf}) {
    for (const ValueForm form :
         {ValueForm::kFp32, ValueForm::kBf16, ValueForm::kFp16, ValueForm::kOne,
          ValueForm::kTwoBit}) {
      List list = make_list(1000, 50, "random");
      list.set_values(form);
      std::fill(list.values.begin(), list.values.end(), bad);
      const Bytes bytes = encode(list);
      List out;
      EXPECT_EQ(decode(bytes, list.segments, 50, out), WireError::kValueFinite)
          << name_of(form);
    }
  }
}

// A row's position beyond its end, and the same one twice.
TEST_F(Hostile, RowPositionsAreChecked) {
  List list;
  for (const std::uint32_t i : {0, 1, 2, 3}) list.indices.push_back(i);
  list.values.assign(4, 1);
  list.cut({20});
  list.segments[0].rows = {{2, 5, 2, 1}, false};
  list.indices = {0, 1, 10, 11};
  Bytes bytes = encode(list, forced(IndexForm::kRows));
  ASSERT_FALSE(bytes.empty());
  List out;
  ASSERT_EQ(decode(bytes, list.segments, 4, out), WireError::kNone);
  ASSERT_EQ(bytes[kHead], std::byte{0});  // four positions of three bits
  bytes[kHead] = std::byte{5};
  seal(bytes);
  EXPECT_EQ(decode(bytes, list.segments, 4, out), WireError::kIndexRange);
  list.segments[0].rows.rows.k = 2;
  list.indices = {0, 1, 2, 3, 10, 11, 12, 13};
  list.values.assign(8, 1);
  list.starts = {0, 8};
  bytes = encode(list, forced(IndexForm::kRows));
  ASSERT_EQ(decode(bytes, list.segments, 8, out), WireError::kNone);
  std::fill_n(bytes.begin() + kHead, 3, std::byte{0});
  seal(bytes);
  EXPECT_EQ(decode(bytes, list.segments, 8, out), WireError::kIndexOrder);
  // Rows that the receiver does not have.
  list.segments[0].rows = {};
  EXPECT_EQ(decode(bytes, list.segments, 8, out), WireError::kIndexSection);
}

// Random bytes behind sealed headers: any result but a crash is fine, and a
// success must be well formed.
TEST_F(Hostile, RandomPayloadsNeverEscape) {
  std::vector<List> lists;
  for (std::uint64_t seed = 0; seed < 40; ++seed) lists.push_back(mixed(seed));
  for (std::uint64_t trial = 0; trial < 20'000; ++trial) {
    const List& list = lists[trial % lists.size()];
    Bytes bytes = encode(list);
    std::uint64_t n = 0;
    for (const SegmentForm& s : list.segments) n += s.size;
    const std::size_t head =
        std::min(bytes.size(), sizeof(WireHeader) +
                                   parts_of(bytes).size() * sizeof(WirePart));
    for (std::size_t i = 0; i < 1 + mix64(trial) % 4; ++i) {
      const std::uint64_t r = mix64(trial, i);
      // Often a form, sometimes a count, mostly the sections.
      std::size_t at = head + r % (bytes.size() - head + 1);
      if (r >> 60 == 0) at = sizeof(WireHeader) + r % 16;
      if (at < bytes.size()) bytes[at] = static_cast<std::byte>(r >> 20 & 31U);
    }
    seal(bytes);
    List out;
    if (decode(bytes, list.segments, list.indices.size(), out) !=
        WireError::kNone) {
      continue;
    }
    EXPECT_TRUE(std::is_sorted(out.indices.begin(), out.indices.end()));
    for (const std::uint32_t i : out.indices) EXPECT_LT(i, n);
  }
}

// Sizes that 32-bit indices cannot hold, or that only add up modulo 2^64.
TEST_F(Hostile, BucketsThatAreTooLargeAreSeen) {
  const std::uint64_t half = std::uint64_t{1} << 63;
  const std::vector<SegmentForm> segments = {{half, ValueForm::kFp32, {}},
                                             {half, ValueForm::kFp32, {}},
                                             {1000, ValueForm::kFp32, {}}};
  List out;
  EXPECT_EQ(decode(message(), segments, 100, out), WireError::kDenseSize);
  EXPECT_EQ(error_of(message(), (std::uint64_t{1} << 32) + 1),
            WireError::kDenseSize);
}

}  // namespace
}  // namespace sluice::testing
