// Messages of every backend: the bytes and the verdicts of the CPU's coder.

#include <algorithm>
#include <cstring>
#include <limits>

#include "codec/wire_support.h"
#include "sluice/core/hash.h"

namespace sluice::testing {
namespace {

// Host arrays on their way through a backend.
class WireOnDevices : public ::testing::TestWithParam<std::string> {
 protected:
  template <class T>
  T* put(Buffer& buffer, const std::vector<T>& from, std::size_t skip = 0) {
    const std::size_t bytes = from.size() * sizeof(T);
    if (buffer.bytes() < bytes + skip) {
      buffer = backend_->allocate(2 * bytes + skip + 256);
    }
    auto* to = buffer.data<std::byte>() + skip;
    backend_->copy_in(*stream_, to, std::as_bytes(std::span(from)));
    return reinterpret_cast<T*>(to);
  }
  template <class T>
  void get(std::vector<T>& to, const T* from) {
    backend_->copy_out(*stream_, std::as_writable_bytes(std::span(to)), from);
    backend_->wait(backend_->record(*stream_));
  }

  // What encode() says, at an address that is `skip` behind a word.
  Bytes encoded(const List& list, const WireOptions& options,
                std::size_t capacity, std::size_t skip = 0) {
    EncodePass pass;
    pass.indices = put(indices_, list.indices);
    pass.values = put(values_, list.values);
    pass.starts = put(starts_, list.starts);
    pass.segments = list.segments;
    pass.options = options;
    // What is around it is to stay.
    constexpr std::size_t kAround = 16;
    Bytes out(kAround + capacity + kAround, std::byte{0x5a});
    pass.out = put(out_, out, skip) + kAround;
    pass.capacity = capacity;
    std::vector<std::uint64_t> written = {7};
    pass.written = put(written_, written);
    backend_->encode(*stream_, pass);
    get(written, pass.written);
    get(out, pass.out - kAround);
    const auto untouched = [](std::byte b) { return b == std::byte{0x5a}; };
    EXPECT_TRUE(std::all_of(out.begin(), out.begin() + kAround, untouched));
    EXPECT_TRUE(std::all_of(out.end() - kAround, out.end(), untouched));
    EXPECT_LE(written[0], capacity);
    return {out.begin() + kAround,
            out.begin() + kAround + static_cast<std::ptrdiff_t>(written[0])};
  }

  // What decode() says, of a message that is `skip` behind a word; `bytes` and
  // `said` as in DecodePass.
  struct Said {
    DecodeResult result;
    List list;
  };
  Said decoded(const Bytes& bytes, std::span<const SegmentForm> segments,
               std::size_t capacity, std::size_t skip = 0,
               const std::uint64_t* said = nullptr) {
    // What is behind the arrays is to stay.
    constexpr std::size_t kBehind = 8;
    List out;
    out.indices.assign(capacity + kBehind, 0xabcdef);
    out.values.assign(capacity + kBehind, 7);
    out.starts.assign(segments.size() + 1 + kBehind, 7);
    DecodePass pass;
    pass.in = put(in_, bytes, skip);
    pass.bytes = bytes.size();
    pass.segments = segments;
    pass.indices = put(indices_, out.indices);
    pass.values = put(values_, out.values);
    pass.starts = put(starts_, out.starts);
    pass.capacity = capacity;
    std::vector<DecodeResult> result(1);
    pass.result = put(result_, result);
    if (said != nullptr) {
      pass.size = put(size_, std::vector<std::uint64_t>{*said});
    }
    backend_->decode(*stream_, pass);
    get(result, pass.result);
    get(out.indices, pass.indices);
    get(out.values, pass.values);
    get(out.starts, pass.starts);
    for (std::size_t i = 0; i < kBehind; ++i) {
      EXPECT_EQ(out.indices[capacity + i], 0xabcdefU);
      EXPECT_EQ(out.values[capacity + i], 7.0F);
      EXPECT_EQ(out.starts[segments.size() + 1 + i], 7U);
    }
    EXPECT_LE(result[0].count, capacity);
    out.indices.resize(result[0].count);
    out.values.resize(result[0].count);
    out.starts.resize(segments.size() + 1);
    return {result[0], out};
  }

  // The CPU's verdict and, where it is a good one, its entries.
  void expect_same_verdict(const Bytes& bytes,
                           std::span<const SegmentForm> segments,
                           std::size_t capacity, const std::string& what) {
    List expected;
    const WireError error = decode(bytes, segments, capacity, expected);
    const Said said = decoded(bytes, segments, capacity);
    ASSERT_EQ(describe(said.result.error), describe(error)) << what;
    ASSERT_EQ(said.list.starts, expected.starts) << what;
    ASSERT_EQ(said.list.indices, expected.indices) << what;
    ASSERT_EQ(bits(said.list.values), bits(expected.values)) << what;
  }
  static std::vector<std::uint32_t> bits(const std::vector<float>& values) {
    std::vector<std::uint32_t> out(values.size());
    if (!values.empty()) {
      std::memcpy(out.data(), values.data(), 4 * values.size());
    }
    return out;
  }

  static std::size_t room(const List& list) {
    std::size_t out = 4096 + 16 * list.indices.size();
    for (const SegmentForm& s : list.segments) out += s.size / 8;
    return out;
  }

  // All forms, as the CPU writes them.
  void expect_same_bytes(const List& list, std::string_view what) {
    std::vector<WireOptions> all = {{}, {true, IndexForm::kEliasFano, false}};
    for (const IndexForm form : plain_forms()) all.push_back(forced(form));
    all.push_back(forced(IndexForm::kRows));
    for (const WireOptions& options : all) {
      const Bytes expected = encode(list, options);
      ASSERT_EQ(encoded(list, options, room(list)), expected)
          << what << ", " << list.indices.size() << " entries, "
          << (options.choose ? "auto" : name_of(options.index_form));
      if (!expected.empty()) {
        expect_same_verdict(expected, list.segments, list.indices.size(),
                            std::string(what));
      }
    }
  }

  std::unique_ptr<Backend> backend_ = make_backend(GetParam());
  std::unique_ptr<Stream> stream_ = backend_->make_stream();
  Buffer indices_, values_, starts_, out_, written_, in_, result_, size_;
};

std::vector<ValueForm> all_values() {
  return {ValueForm::kFp32, ValueForm::kBf16, ValueForm::kFp16, ValueForm::kOne,
          ValueForm::kTwoBit};
}

// Six hundred tensors, a third of them without entries.
List many_segments() {
  List list;
  list.starts = {0};
  for (std::uint64_t s = 0; s < 600; ++s) {
    const std::uint64_t r = mix64(31, s);
    list.append(
        make_list(1 + r % 40, r % 3 == 0 ? 0 : 1 + r % 40 / 7, "random"));
    // Runs of them with the same form, so that parts have several.
    list.segments.back().values = static_cast<ValueForm>(s / 100 % 5);
  }
  return list;
}

TEST_P(WireOnDevices, WritesWhatTheCpuWrites) {
  for (const std::uint64_t n : {1, 65, 1000, 9000}) {
    for (const std::uint64_t k : {0, 1, 2, 31, 256, 257, 1000, 4000}) {
      if (k > n) continue;
      for (const std::string_view kind :
           {"random", "front", "back", "clusters"}) {
        expect_same_bytes(make_list(n, k, kind), kind);
      }
    }
  }
}

TEST_P(WireOnDevices, WritesAnEmptyBlock) {
  for (const std::uint64_t n : {0, 1000}) {
    expect_same_bytes(make_list(n, 0, "random"), "empty");
  }
  List none;
  none.starts = {0};
  expect_same_bytes(none, "no segments");
  // Too many elements for indices of 32 bits.
  List large = make_list(1000, 10, "random");
  large.segments.push_back({~std::uint64_t{0}, ValueForm::kFp32, {}});
  large.starts.push_back(10);
  EXPECT_TRUE(encode(large).empty());
  EXPECT_TRUE(encoded(large, {}, 4096).empty());
  expect_same_verdict(encode(make_list(1000, 10, "random")), large.segments, 10,
                      "too large");
}

// Many chunks, tiles and samples of bitpack.
TEST_P(WireOnDevices, WritesLongLists) {
  expect_same_bytes(make_list(300'000, 30'000, "random"), "random");
  expect_same_bytes(make_list(300'000, 30'001, "clusters"), "clusters");
}

TEST_P(WireOnDevices, WritesEveryValueForm) {
  List list = make_list(5000, 301, "random");
  list.cut({2000, 0, 2700, 300});
  for (const ValueForm form : all_values()) {
    List rounded = list;
    rounded.set_values(form);
    expect_same_bytes(rounded, name_of(form));
    // Values that a table cannot carry; and such as are not finite.
    rounded.values = list.values;
    rounded.values[200] = std::numeric_limits<float>::quiet_NaN();
    rounded.values[210] = std::numeric_limits<float>::infinity();
    expect_same_bytes(rounded, name_of(form));
    // Equal magnitudes of both signs.
    for (std::size_t i = 0; i < 301; ++i) rounded.values[i] = i % 2 ? 2 : -2;
    expect_same_bytes(rounded, name_of(form));
  }
}

TEST_P(WireOnDevices, WritesManySegments) {
  expect_same_bytes(many_segments(), "many segments");
  List list = many_segments();
  for (SegmentForm& s : list.segments) s.values = ValueForm::kBf16;
  expect_same_bytes(list, "many alike");
}

TEST_P(WireOnDevices, WritesRandomMixes) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    expect_same_bytes(mixed(seed), "mixed");
  }
}

TEST_P(WireOnDevices, WritesHugeGaps) {
  List list;
  list.indices = {0, 1U << 31, ~1U};
  list.values = {1, 2, 3};
  list.cut({std::uint64_t{1} << 32});
  for (const IndexForm form :
       {IndexForm::kEliasFano, IndexForm::kBitpack, IndexForm::kRaw32}) {
    EXPECT_EQ(encoded(list, forced(form), 4096), encode(list, forced(form)));
  }
}

TEST_P(WireOnDevices, WritesRowsAndTiles) {
  const std::vector<std::pair<std::string, Dims>> cases = {
      {"adtopk", {40, 256}},
      {"adtopk", {6, 20, 9}},
      {"adtopk", {1, 130, 70}},
      {"adtopk", {5, 1, 7}},
      {"adtopk:dim=0", {300, 41}},
      {"tile", {130, 70}},
      {"tile", {9000}},
      {"tile", {107, 1}},
      {"tile", {200, 3}},
      {"tile", {70, 64}},
      {"tile", {2, 4100}}};
  for (const auto& [sparsifier, dims] : cases) {
    for (const double density : {0.012, 0.2}) {
      List list = selected(sparsifier, {dims, {50}, dims}, density);
      expect_same_bytes(list, sparsifier);
      // As many entries, but one of them elsewhere.
      auto other = static_cast<std::uint32_t>(list.segments[0].size - 1);
      if (list.starts[1] == 0 || list.indices[list.starts[1] - 1] == other) {
        continue;
      }
      list.indices.erase(list.indices.begin());
      list.indices.insert(list.indices.begin() +
                              static_cast<std::ptrdiff_t>(list.starts[1]) - 1,
                          other);
      expect_same_bytes(list, sparsifier);
    }
  }
}

TEST_P(WireOnDevices, SaysThatAMessageDoesNotFit) {
  for (const std::uint64_t seed : {1, 3, 4, 5}) {
    const List list = mixed(seed);
    const Bytes whole = encode(list);
    for (std::size_t size = 0; size <= whole.size() + 8;
         size += size + 40 < whole.size() ? 29 : 1) {
      cpu::wire::Coder coder(cpu::wire_kernels(""));
      Bytes expected(size);
      expected.resize(coder.encode({list.indices.data(), list.values.data(),
                                    list.starts.data(), list.segments},
                                   {}, expected));
      ASSERT_EQ(encoded(list, {}, size), expected) << size;
    }
  }
}

TEST_P(WireOnDevices, WritesToAnyAddress) {
  const List list = mixed(3);
  const Bytes expected = encode(list);
  for (const std::size_t skip : {1, 2, 4, 7, 8}) {
    EXPECT_EQ(encoded(list, {}, expected.size() + 3, skip), expected);
  }
}

// Small messages of every form of index and value.
std::vector<std::pair<Bytes, List>> small_messages() {
  std::vector<std::pair<Bytes, List>> out;
  const auto add = [&](const List& list, const WireOptions& options) {
    out.emplace_back(encode(list, options), list);
    ASSERT_FALSE(out.back().first.empty());
  };
  for (const IndexForm form : {IndexForm::kEliasFano, IndexForm::kBitpack,
                               IndexForm::kBitmap, IndexForm::kRaw32}) {
    add(make_list(300, 17, "random"), forced(form));
  }
  add(make_list(20, 20, "front"), forced(IndexForm::kDense));
  for (const ValueForm form : all_values()) {
    List list = make_list(200, 40, "random");
    list.cut({100, 100});
    list.set_values(form);
    add(list, {});
  }
  for (const auto& [sparsifier, dims] :
       {std::pair<std::string, Dims>{"adtopk", {3, 32}},
        {"adtopk", {2, 10, 9}},
        {"tile", {70, 66}},
        {"tile", {300}}}) {
    add(selected(sparsifier, {dims, dims}, 0.01), forced(IndexForm::kRows));
  }
  add(mixed(5), {});
  return out;
}

// Each byte in turn, with and now and then without a checksum that says that it
// is right.
TEST_P(WireOnDevices, SeesWhatTheCpuSeesInADamagedMessage) {
  for (const auto& [whole, list] : small_messages()) {
    const std::size_t capacity = list.indices.size() + 3;
    for (std::size_t i = 0; i < std::min<std::size_t>(whole.size(), 400); ++i) {
      Bytes bad = whole;
      bad[i] ^= std::byte{1} << (mix64(3, i) % 8);
      const std::string what = "byte " + std::to_string(i);
      if (i % 4 == 0) {
        expect_same_verdict(bad, list.segments, capacity, what);
      }
      seal(bad);
      expect_same_verdict(bad, list.segments, capacity, what);
    }
  }
}

TEST_P(WireOnDevices, SeesWhatTheCpuSeesInACutMessage) {
  for (const auto& [whole, list] : small_messages()) {
    for (std::size_t size = 0; size <= whole.size() + 9;
         size += 1 + size / 40) {
      Bytes cut = whole;
      cut.resize(size);
      seal(cut);
      expect_same_verdict(cut, list.segments, list.indices.size(),
                          std::to_string(size));
    }
    expect_same_verdict(whole, list.segments, list.indices.size() - 1, "room");
  }
}

// Several bytes at once, of messages with several parts.
TEST_P(WireOnDevices, SeesWhatTheCpuSeesInRandomPayloads) {
  std::vector<std::pair<Bytes, List>> all;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const List list = mixed(seed);
    if (!list.indices.empty()) all.emplace_back(encode(list), list);
  }
  // Bands with many entries, and few.
  for (const auto& [sparsifier, dims] :
       {std::pair<std::string, Dims>{"tile", {130, 70}},
        {"tile", {64, 64}},
        {"adtopk", {1, 130, 70}},
        {"adtopk", {30, 9, 20}}}) {
    for (const double density : {0.01, 0.1}) {
      const List list = selected(sparsifier, {dims, dims}, density);
      for (int times = 0; times < 4; ++times) {
        all.emplace_back(encode(list, forced(IndexForm::kRows)), list);
      }
    }
  }
  for (std::uint64_t trial = 0; trial < 800; ++trial) {
    const auto& [whole, list] = all[trial % all.size()];
    Bytes bytes = whole;
    const std::size_t head =
        sizeof(WireHeader) + parts_of(bytes).size() * sizeof(WirePart);
    for (std::size_t i = 0; i < 1 + mix64(trial) % 4; ++i) {
      const std::uint64_t r = mix64(trial, i);
      std::size_t at = head + r % (bytes.size() - head);
      if (r >> 60 == 0) at = sizeof(WireHeader) + r % 16;
      bytes[at] = static_cast<std::byte>(r >> 20 & 31U);
    }
    seal(bytes);
    expect_same_verdict(bytes, list.segments, list.indices.size(),
                        "trial " + std::to_string(trial));
  }
}

// Positions of a tile that do not ascend, among as many as the CPU sorts in
// another way than few.
TEST_P(WireOnDevices, SeesWhatTheCpuSeesInTilesOutOfOrder) {
  for (const double density : {0.01, 0.1}) {
    const List list = selected("tile", {{64, 128}}, density);
    const Bytes whole = encode(list, forced(IndexForm::kRows));
    const std::size_t entries = list.indices.size();
    const auto position = [&](const Bytes& bytes, std::size_t e) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + kHead + 12 * e / 8, 2);
      return bits >> (12 * e % 8) & 0xfffU;
    };
    const auto put_position = [&](Bytes& bytes, std::size_t e,
                                  std::uint64_t to) {
      std::uint16_t bits = 0;
      std::byte* at = bytes.data() + kHead + 12 * e / 8;
      std::memcpy(&bits, at, 2);
      const unsigned shift = 12 * e % 8;
      bits =
          static_cast<std::uint16_t>((bits & ~(0xfffU << shift)) | to << shift);
      std::memcpy(at, &bits, 2);
    };
    for (std::size_t trial = 0; trial < 100; ++trial) {
      const std::size_t e = mix64(trial) % (entries - 1);
      const std::size_t f = std::min(
          e + 1 + mix64(trial, 1) % (trial % 2 == 0 ? 1 : 20), entries - 1);
      Bytes bytes = whole;
      put_position(bytes, e, position(whole, f));
      put_position(bytes, f, position(whole, e));
      seal(bytes);
      expect_same_verdict(bytes, list.segments, entries, "swapped");
    }
  }
}

TEST_P(WireOnDevices, ReadsFromAnyAddress) {
  const List list = mixed(3);
  const Bytes bytes = encode(list);
  for (const std::size_t skip : {1, 2, 4, 7, 8}) {
    const Said said = decoded(bytes, list.segments, list.indices.size(), skip);
    EXPECT_EQ(said.result.error, WireError::kNone);
    EXPECT_EQ(said.list.indices, list.indices);
    EXPECT_EQ(said.list.values, list.values);
  }
}

// A slot that is longer than its message, whose size only the device knows.
TEST_P(WireOnDevices, TakesTheSizeFromTheDevice) {
  const List list = mixed(3);
  const std::size_t count = list.indices.size();
  Bytes slot = encode(list);
  const std::uint64_t size = slot.size();
  slot.resize(size + 100, std::byte{0x77});
  const auto error = [&](std::uint64_t said) {
    return decoded(slot, list.segments, count, 0, &said).result.error;
  };
  const Said said = decoded(slot, list.segments, count, 0, &size);
  EXPECT_EQ(said.result.error, WireError::kNone);
  EXPECT_EQ(said.list.indices, list.indices);
  EXPECT_EQ(said.list.starts, list.starts);
  EXPECT_EQ(error(size + 1), WireError::kChecksum);
  EXPECT_EQ(error(size - 1), WireError::kChecksum);
  EXPECT_EQ(error(31), WireError::kTruncated);
  EXPECT_EQ(error(0), WireError::kTruncated);
  // More than there is room for.
  EXPECT_EQ(error(size + 101), WireError::kTruncated);
  EXPECT_EQ(error(~std::uint64_t{0}), WireError::kTruncated);
}

INSTANTIATE_TEST_SUITE_P(Backends, WireOnDevices,
                         ::testing::ValuesIn(device_names()),
                         [](const auto& b) { return safe_name(b.param); });

}  // namespace
}  // namespace sluice::testing
