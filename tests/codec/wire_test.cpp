#include "sluice/backend/cpu/wire.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/backend/cpu/bits.h"
#include "sluice/backend/cpu/quantize.h"
#include "sluice/core/hash.h"
#include "support.h"

namespace sluice::testing {
namespace {

namespace wire = cpu::wire;
using Bytes = std::vector<std::byte>;

template <class Index>
struct List {
  std::vector<Index> indices;
  std::vector<float> values;
  std::vector<std::uint64_t> starts;

  wire::Entries<const Index> entries(
      std::span<const RowLayout> rows = {}) const {
    return {indices, values, starts, rows};
  }
};

// k distinct sorted indices below n: random, at either end, or in clusters.
template <class Index>
List<Index> make_list(std::uint64_t n, std::uint64_t k, std::string_view kind) {
  List<Index> list;
  for (std::uint64_t i = 0; i < k; ++i) {
    std::uint64_t index = 0;
    if (kind == "front") {
      index = i;
    } else if (kind == "back") {
      index = n - k + i;
    } else if (kind == "clusters") {
      const std::uint64_t room = n / k;
      index = i / 8 * 8 * room + (room > 1 ? i % 8 : i % 8 * room);
    } else {
      const std::uint64_t room = n / k;
      index = i * room + bounded(mix64(n, k, i), room);
    }
    list.indices.push_back(static_cast<Index>(index));
    list.values.push_back(static_cast<float>(i % 3 == 0 ? -1 : 1) *
                          (1 + static_cast<float>(i % 7)));
  }
  list.starts = {0, k};
  return list;
}

template <class Index>
Bytes encode(const List<Index>& list, std::uint64_t n, IndexForm form,
             ValueForm values = ValueForm::kFp32,
             std::span<const RowLayout> rows = {}) {
  const std::size_t bitmap = form == IndexForm::kBitmap ? n / 8 : 0;
  Bytes out(48 + 16 * list.indices.size() + bitmap + 4096);
  out.resize(wire::encode<Index>(list.entries(rows), n, form, values, out));
  return out;
}

template <class Index>
WireError decode(const Bytes& bytes, std::uint64_t n, std::size_t capacity,
                 List<Index>& out) {
  out.indices.assign(capacity, 0);
  out.values.assign(capacity, 0);
  const DecodeResult result = wire::decode<Index>(
      bytes, n, std::span(out.indices), std::span(out.values));
  out.indices.resize(result.count);
  out.values.resize(result.count);
  return result.error;
}

template <class Index>
void expect_round_trips(std::uint64_t n, std::uint64_t k) {
  for (const std::string_view kind : {"random", "front", "back", "clusters"}) {
    const auto list = make_list<Index>(n, k, kind);
    for (std::size_t f = 0; f < kIndexFormNames.size(); ++f) {
      const auto form = static_cast<IndexForm>(f);
      if (form == IndexForm::kRows) continue;
      if (form == IndexForm::kDense && k != n) continue;
      if (form == IndexForm::kBitmap && n > 1 << 24) continue;
      if (form == IndexForm::kRaw32 && n > std::uint64_t{1} << 32) continue;
      const Bytes bytes = encode(list, n, form);
      ASSERT_FALSE(bytes.empty()) << name_of(form) << " n " << n << " k " << k;
      List<Index> back;
      ASSERT_EQ(decode(bytes, n, k, back), WireError::kNone)
          << name_of(form) << " n " << n << " k " << k << " " << kind;
      ASSERT_EQ(back.indices, list.indices) << name_of(form) << " " << kind;
      ASSERT_EQ(back.values, list.values);
    }
  }
}

TEST(Wire, RoundTripsEveryIndexForm) {
  for (const std::uint64_t n : {1, 2, 63, 64, 65, 1000, 100'003}) {
    for (const std::uint64_t k : {1, 2, 31, 255, 256, 257, 1000, 100'003}) {
      if (k <= n) expect_round_trips<std::uint32_t>(n, k);
      if (k <= n) expect_round_trips<std::uint64_t>(n, k);
    }
  }
}

// The arithmetic beyond 2^31 and 2^32, without allocating so many elements.
TEST(Wire, RoundTripsHugeDenseSizes) {
  constexpr std::uint64_t kTwo31 = std::uint64_t{1} << 31;
  constexpr std::uint64_t kTwo32 = std::uint64_t{1} << 32;
  for (const std::uint64_t n :
       {kTwo31 - 1, kTwo31, kTwo31 + 1, kTwo32 - 1, kTwo32}) {
    expect_round_trips<std::uint32_t>(n, 1);
    expect_round_trips<std::uint32_t>(n, 1000);
  }
  for (const std::uint64_t n : {kTwo32 + 1, std::uint64_t{1} << 40}) {
    expect_round_trips<std::uint64_t>(n, 1);
    expect_round_trips<std::uint64_t>(n, 1000);
  }
}

TEST(Wire, CarriesAnEmptyBlock) {
  for (const std::uint64_t n : {0, 1, 1000}) {
    const auto list = make_list<std::uint32_t>(n, 0, "random");
    for (const IndexForm form : {IndexForm::kEliasFano, IndexForm::kBitpack,
                                 IndexForm::kBitmap, IndexForm::kRaw32}) {
      List<std::uint32_t> back;
      EXPECT_EQ(decode(encode(list, n, form), n, 0, back), WireError::kNone);
      EXPECT_TRUE(back.indices.empty());
    }
  }
}

TEST(Wire, CarriesEveryValueForm) {
  auto list = make_list<std::uint32_t>(5000, 300, "random");
  list.starts = {0, 100, 100, 300};
  for (const ValueForm form :
       {ValueForm::kFp32, ValueForm::kBf16, ValueForm::kFp16, ValueForm::kOne,
        ValueForm::kTwoBit}) {
    auto rounded = list;
    for (std::size_t s = 0; s + 1 < list.starts.size(); ++s) {
      cpu::quantize_values(
          form,
          std::span(rounded.values)
              .subspan(list.starts[s], list.starts[s + 1] - list.starts[s]));
    }
    List<std::uint32_t> back;
    ASSERT_EQ(decode(encode(rounded, 5000, IndexForm::kEliasFano, form), 5000,
                     300, back),
              WireError::kNone)
        << name_of(form);
    EXPECT_EQ(back.values, rounded.values) << name_of(form);
  }
  // A form that cannot carry the values refuses them.
  EXPECT_TRUE(
      encode(list, 5000, IndexForm::kEliasFano, ValueForm::kOne).empty());
}

TEST(Wire, CarriesRowsAndTiles) {
  struct Shape {
    RowLayout layout;
    std::size_t n;
  };
  for (const Shape& shape : {
           Shape{{{40, 256, 1, 3}, false}, 40 * 256},
           Shape{{{6, 20, 9, 2}, false}, 6 * 20 * 9},
           Shape{{{1, 130, 70, 5}, false}, 130 * 70},
           Shape{{{5, 1, 7, 1}, false}, 35},
           Shape{{{1, 130, 70, 40}, true}, 130 * 70},
           Shape{{{1, 1, 9000, 40}, true}, 9000},
       }) {
    const auto x = gaussian(shape.n, 5);
    Rig::Options o;
    const RowGeometry& r = shape.layout.rows;
    // The rig selects; its layout is what the codec is given.
    o.sparsifier = shape.layout.tiles ? "tile" : "adtopk";
    o.tensors = {shape.layout.tiles ? (r.length == 1 ? Dims{r.stride}
                                                     : Dims{r.length, r.stride})
                                    : Dims{r.slabs, r.length, r.stride}};
    Rig rig(o);
    const Sent sent = rig.step(x, 0.012);
    ASSERT_EQ(rig.feedback().rows().size(), 1U);
    const List<std::uint32_t> list = {
        sent.indices, sent.values, {0, sent.indices.size()}};
    const Bytes bytes = encode(list, shape.n, IndexForm::kRows,
                               ValueForm::kFp32, rig.feedback().rows());
    ASSERT_FALSE(bytes.empty());
    List<std::uint32_t> back;
    ASSERT_EQ(decode(bytes, shape.n, sent.indices.size(), back),
              WireError::kNone);
    EXPECT_EQ(back.indices, sent.indices);
    // Entries that are not k per row do not fit.
    auto wrong = list;
    wrong.indices[0] = wrong.indices[0] == 0 ? 1 : 0;
    std::sort(wrong.indices.begin(), wrong.indices.end());
    wrong.indices.erase(std::unique(wrong.indices.begin(), wrong.indices.end()),
                        wrong.indices.end());
    wrong.values.resize(wrong.indices.size());
    wrong.starts = {0, wrong.indices.size()};
    if (wrong.indices.size() != list.indices.size()) {
      EXPECT_TRUE(encode(wrong, shape.n, IndexForm::kRows, ValueForm::kFp32,
                         rig.feedback().rows())
                      .empty());
    }
  }
}

TEST(Wire, EliasFanoIsNearTheEntropy) {
  for (const std::uint64_t gap : {10, 100, 1000}) {
    const std::uint64_t k = 20'000;
    const std::uint64_t n = k * gap;
    List<std::uint32_t> list;
    for (std::uint32_t i = 0; list.indices.size() < k && i < n; ++i) {
      if (mix64(7, i) % gap == 0) list.indices.push_back(i);
    }
    list.values.assign(list.indices.size(), 1);
    list.starts = {0, list.indices.size()};
    const double d = 1.0 / static_cast<double>(gap);
    const double entropy = (-d * std::log2(d) - (1 - d) * std::log2(1 - d)) / d;
    const double bits = 8.0 *
                        static_cast<double>(wire::index_bytes(
                            list.entries(), n, IndexForm::kEliasFano)) /
                        static_cast<double>(list.indices.size());
    EXPECT_LT(bits, entropy + 0.7) << gap;
    EXPECT_LT(bits, 8.0 *
                        static_cast<double>(wire::index_bytes(
                            list.entries(), n, IndexForm::kBitpack)) /
                        static_cast<double>(list.indices.size()));
  }
}

TEST(Wire, ChoosesTheSmallestForm) {
  const auto smallest = [](std::uint64_t n, std::uint64_t k,
                           std::string_view kind) {
    const auto list = make_list<std::uint32_t>(n, k, kind);
    return wire::smallest_form(list.entries(), n);
  };
  EXPECT_EQ(smallest(1000, 1000, "front"), IndexForm::kDense);
  List<std::uint32_t> bernoulli;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    if (mix64(1, i) % 100 == 0) bernoulli.indices.push_back(i);
  }
  bernoulli.values.assign(bernoulli.indices.size(), 1);
  bernoulli.starts = {0, bernoulli.indices.size()};
  EXPECT_EQ(wire::smallest_form(bernoulli.entries(), 100'000),
            IndexForm::kEliasFano);
  EXPECT_EQ(smallest(100'000, 60'000, "front"), IndexForm::kBitpack);
  EXPECT_EQ(smallest(100'000, 50'000, "random"), IndexForm::kBitmap);
  const RowLayout one_per_row[] = {{{1000, 1024, 1, 1}, false}};
  List<std::uint32_t> list;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    list.indices.push_back(i * 1024 +
                           static_cast<std::uint32_t>(mix64(i) % 1024));
  }
  list.values.assign(1000, 1);
  list.starts = {0, 1000};
  EXPECT_EQ(wire::smallest_form(list.entries(one_per_row), 1'024'000),
            IndexForm::kRows);
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

// A valid header and checksum around whatever the test does to it.
void seal(Bytes& bytes) {
  WireHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.checksum = 0;
  header.checksum =
      wire::checksum(std::as_bytes(std::span(&header, 1)),
                     std::span<const std::byte>(bytes).subspan(sizeof(header)));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

class Hostile : public ::testing::Test {
 protected:
  Bytes message(IndexForm form = IndexForm::kEliasFano) const {
    return encode(make_list<std::uint32_t>(1000, 50, "random"), 1000, form);
  }
  static WireError error_of(const Bytes& bytes, std::uint64_t n = 1000,
                            std::size_t capacity = 1000) {
    List<std::uint32_t> out;
    return decode(bytes, n, capacity, out);
  }
  template <class F>
  static WireError patched(Bytes bytes, F&& f) {
    WireHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    f(header);
    std::memcpy(bytes.data(), &header, sizeof(header));
    seal(bytes);
    return error_of(bytes);
  }
};

TEST_F(Hostile, EveryTruncationIsSeen) {
  for (const IndexForm form : {IndexForm::kEliasFano, IndexForm::kBitpack,
                               IndexForm::kBitmap, IndexForm::kRaw32}) {
    const Bytes whole = message(form);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(),
                      whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NE(error_of(cut), WireError::kNone) << size;
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
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
  EXPECT_EQ(patched(good, [](H& h) { h.magic ^= 1; }), WireError::kMagic);
  EXPECT_EQ(patched(good, [](H& h) { h.version = 2; }), WireError::kVersion);
  EXPECT_EQ(patched(good, [](H& h) { h.index_form = 99; }), WireError::kForm);
  EXPECT_EQ(patched(good, [](H& h) { h.value_form = 99; }), WireError::kForm);
  EXPECT_EQ(patched(good, [](H& h) { h.reserved = 1; }), WireError::kReserved);
  EXPECT_EQ(patched(good, [](H& h) { h.count = 1001; }), WireError::kCount);
  EXPECT_EQ(patched(good, [](H& h) { h.count = ~0ULL; }), WireError::kCount);
  EXPECT_EQ(patched(good, [](H& h) { h.count = 60; }),
            WireError::kIndexSection);
  EXPECT_EQ(patched(good, [](H& h) { h.index_bytes = ~0ULL; }),
            WireError::kLengths);
  EXPECT_EQ(patched(good, [](H& h) { h.value_bytes += 8; }),
            WireError::kLengths);
  EXPECT_EQ(patched(good, [](H& h) { h.index_form = 2; }),
            WireError::kIndexSection);
  EXPECT_EQ(patched(good, [](H& h) { h.value_form = 1; }),
            WireError::kValueSection);
  Bytes bad = good;
  bad[20] ^= std::byte{4};
  EXPECT_NE(error_of(bad), WireError::kNone);
}

TEST_F(Hostile, UnsortedAndOutOfRangeIndicesAreSeen) {
  Bytes raw = message(IndexForm::kRaw32);
  const auto put = [&](std::size_t entry, std::uint32_t index) {
    std::memcpy(raw.data() + 48 + 4 * entry, &index, 4);
    seal(raw);
  };
  put(49, 1000);
  EXPECT_EQ(error_of(raw), WireError::kIndexRange);
  put(49, ~0U);
  EXPECT_EQ(error_of(raw), WireError::kIndexRange);
  put(49, 0);
  EXPECT_EQ(error_of(raw), WireError::kIndexOrder);
  raw = message(IndexForm::kRaw32);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(raw.data() + 48 + 200, &nan, 4);
  seal(raw);
  EXPECT_EQ(error_of(raw), WireError::kValueFinite);
}

// Random bytes behind a sealed header: any result but a crash is fine, and a
// success must be well formed.
TEST_F(Hostile, RandomPayloadsNeverEscape) {
  for (std::uint64_t trial = 0; trial < 20'000; ++trial) {
    Bytes bytes = message(static_cast<IndexForm>(1 + trial % 2 * 2));
    const std::size_t size = 48 + mix64(trial) % 600;
    bytes.resize(size);
    for (std::size_t i = 48; i < size; ++i) {
      bytes[i] = static_cast<std::byte>(mix64(trial, i));
    }
    WireHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.index_form = static_cast<std::uint8_t>(mix64(trial, 1) % 7);
    header.value_form = static_cast<std::uint8_t>(mix64(trial, 2) % 5);
    header.count = mix64(trial, 3) % 100;
    header.index_bytes = mix64(trial, 4) % (size - 47);
    header.value_bytes = size - 48 - header.index_bytes;
    std::memcpy(bytes.data(), &header, sizeof(header));
    seal(bytes);
    List<std::uint32_t> out;
    if (decode(bytes, 1000, 100, out) != WireError::kNone) continue;
    EXPECT_TRUE(std::is_sorted(out.indices.begin(), out.indices.end()));
    for (const std::uint32_t i : out.indices) EXPECT_LT(i, 1000U);
  }
}

// Layouts whose sizes add up to the right ones only modulo 2^64.
TEST_F(Hostile, RowLayoutsThatWrapRoundAreSeen) {
  constexpr std::uint64_t kLayouts = 65536;
  const std::size_t section = 8 * (1 + 4 * kLayouts);
  Bytes bytes(48 + section);
  WireHeader header;
  header.index_form = static_cast<std::uint8_t>(IndexForm::kRows);
  header.dense_size = 0;
  header.index_bytes = section;
  std::memcpy(bytes.data(), &header, sizeof(header));
  cpu::store_word(bytes.data() + 48, 0, kLayouts);
  for (std::uint64_t l = 0; l < kLayouts; ++l) {
    std::byte* words = bytes.data() + 48 + 8 + 32 * l;
    cpu::store_word(words, 0, std::uint64_t{1} << 24);
    cpu::store_word(words, 1, std::uint64_t{1} << 24);
    cpu::store_word(words, 2, 1);
    cpu::store_word(words, 3, std::uint64_t{1} << 24);
  }
  seal(bytes);
  EXPECT_EQ(error_of(bytes, 0, 0), WireError::kIndexSection);
}

// Indices that 32 bits cannot hold are refused, not cut off.
TEST_F(Hostile, DenseSizesBeyondTheIndexTypeAreSeen) {
  const std::uint64_t n = std::uint64_t{1} << 40;
  const Bytes bytes =
      encode(make_list<std::uint64_t>(n, 10, "back"), n, IndexForm::kEliasFano);
  EXPECT_EQ(error_of(bytes, n), WireError::kDenseSize);
}

}  // namespace
}  // namespace sluice::testing
