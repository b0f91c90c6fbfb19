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

INSTANTIATE_TEST_SUITE_P(Backends, WireOnDevices,
                         ::testing::ValuesIn(device_names()),
                         [](const auto& b) { return safe_name(b.param); });

}  // namespace
}  // namespace sluice::testing
